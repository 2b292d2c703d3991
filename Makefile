# Each target sets up what it needs first; `make` alone lists them.

.DEFAULT_GOAL := help
# Two targets side by side would both install.
.NOTPARALLEL:
.PHONY: help setup demo test check bench soak reproduce wheel docs lock clean java chromium jars

BIN := .venv/bin
INSTALLED := .venv/.installed
ARCHIVE := .venv/spark.jsa

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' Makefile

setup: $(INSTALLED) ## create .venv with everything installed
	@echo "ready: .venv"

demo: $(INSTALLED) java ## run the example of the paper, then overload on Spark (3 minutes)
	@$(BIN)/python examples/paper/demo.py
	@$(BIN)/python examples/overload/demo.py

test: $(INSTALLED) java chromium jars $(ARCHIVE) ## run the tests
	@$(BIN)/python scripts/compile_kernels.py
	@$(BIN)/pytest --numprocesses 3 -m 'not soak'

check: $(INSTALLED) ## check format, style, types and import layers
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@scripts/audit

bench: $(INSTALLED) java ## measure, and print a table per question
	@$(BIN)/python -m benchmarks

soak: $(INSTALLED) java jars ## run the long versions of the tests (ONLY=word: those with it in their names)
	@$(BIN)/pytest -m soak --timeout 0 $(if $(ONLY),-k '$(ONLY)')

reproduce: $(INSTALLED) ## run the experiments of the paper (DATA=folder of the cluster trace)
	@$(BIN)/python -m experiments all $(if $(DATA),--data $(DATA))

wheel: $(INSTALLED) ## build dist/shedlight-*.whl
	@$(BIN)/python -m hatchling build -t wheel

docs: $(INSTALLED) ## write docs/api.md, the list of messages (build/messages.md) and the site (build/site)
	@$(BIN)/python scripts/api.py
	@$(BIN)/python scripts/messages.py
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

lock: ## resolve the dependencies anew into requirements.lock
	@scripts/lock

clean: ## remove .venv, caches and what was built
	@rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	@rm -rf artifacts derby.log metastore_db spark-warehouse
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

java:
	@scripts/java

chromium:
	@scripts/chromium

jars: $(INSTALLED)
	@scripts/jars

$(ARCHIVE): scripts/jvm_archive.py $(INSTALLED) | java
	@echo "recording the classes that Spark loads, once: its starts take half the time then"
	@$(BIN)/python scripts/jvm_archive.py $@ 2>/dev/null || echo "that failed; the tests start Spark more slowly"

$(INSTALLED): requirements.lock pyproject.toml
	@scripts/setup
