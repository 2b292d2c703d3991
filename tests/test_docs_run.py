"""The other pages: their commands and their Python do what they say. Long, so in the soak.

The pages are followed as a reader would; what would take hours is made shorter, as said below.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.console import ROOT, blocks, follow, open_shell, same
from tests.runlog.logs import batch, decision, header, text

DOCS = ROOT / "docs"
COMMAND = re.compile(r"^    (?=shedlight |python )(.+)$", re.MULTILINE)
ENDED = {  # commands that run until they are stopped, or for minutes
    "shedlight run examples/overload/app.yaml": "--duration '25 s'",
    "python -m experiments": "--quick --output out",
    "python examples/overload/feed.py": "",
}
LEFT_OUT = {"all --data"}
"""What others of the same page do one by one."""


def commands_of(page: Path) -> list[tuple[str, str]]:
    """Find the commands that stand alone: the command, and the block that follows it."""
    whole = page.read_text("utf-8")
    found = []
    for one in COMMAND.finditer(whole):
        after = whole[one.end() :]
        shown = re.match(r"\n\n```\n(.*?)```\n", after, re.DOTALL)
        found.append((one[1].partition("  #")[0].strip(), shown[1] if shown else ""))
    return found


def shortened(command: str) -> str:
    """Make a command end soon; without the files of the trace, streams like it stand in."""
    for begins, more in ENDED.items():
        if command.startswith(begins):
            return f"{command.replace(' --data DIR', '')} {more}"
    return command


@pytest.fixture
def copy(tmp_path):
    """Copy the examples, so that nothing is left in the repository."""
    shutil.copytree(
        ROOT / "examples",
        tmp_path / "examples",
        ignore=shutil.ignore_patterns("data", "out", "state", "__pycache__"),
    )
    return tmp_path


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_the_tutorial_can_be_followed(tmp_path):
    """From an empty folder to a report, with a run on Spark that sheds."""
    assert follow(DOCS / "tutorial.md", tmp_path) > 15


@pytest.mark.soak
@pytest.mark.parametrize(
    ("page", "command", "shown"),
    [
        (page.name, command, shown)
        for page in sorted(DOCS.glob("*.md"))
        for command, shown in commands_of(page)
        if not any(word in command for word in LEFT_OUT)
    ],
)
def test_commands_print_what_is_shown_below_them(page, command, shown, copy):
    """Where something is shown; a page may leave out the end of it."""
    with open_shell(copy, PYTHONPATH=str(ROOT)) as shell:  # for the experiments
        printed, status = shell.run(shortened(command))
    assert status == 0, f"{page}: {command}: {printed}"
    assert same(f"{shown}...\n", printed), f"{page}: {command}: {printed}"


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_running_on_spark_is_as_the_page_says(copy):
    """The commands of its first block, those of two terminals side by side."""
    first = next(block for block in blocks(DOCS / "running.md") if block.language == "sh")
    commands = [line.partition("#")[0].strip() for line in first.text.splitlines()]
    run, feed = (one for one in commands if " run " in one or "feed.py" in one)
    with open_shell(copy) as shell:
        for command in commands:
            if command not in {run, feed}:
                assert shell.run(command)[1] == 0
        shell.run(f"{feed} > feed.txt &")
        printed, status = shell.run(shortened(run))
    assert status == 0, printed
    assert re.search(r"^node edge: [\d,]+ events in \d+ micro-batch", printed, re.MULTILINE)


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.usefixtures("java")
def test_the_python_of_running_works(copy):
    """In a session that was started in the folder, and for five seconds, not ten minutes."""
    (python,) = (block for block in blocks(DOCS / "running.md") if block.language == "python")
    folder = copy / "examples" / "overload"
    (folder / "data" / "payments").mkdir(parents=True)
    session = "import shedlight\nspark = shedlight.open_session('docs')\n"
    short = python.text.replace("wait(600)", "wait(5)")
    assert short != python.text
    (folder / "own.py").write_text(f"{session}{short}shedlight.close_session(spark)\n", "utf-8")
    with open_shell(folder) as shell:
        printed, status = shell.run("python own.py")
    assert status == 0, printed
    assert (folder / "state" / "app").is_dir()


@pytest.mark.soak
def test_the_commands_of_the_page_show_a_run(tmp_path):
    """Those that serve what was run, as they stand; `run --page` has tests of its own."""
    shown = [block.text for block in blocks(DOCS / "page.md") if block.language == "sh"]
    serve = [line for line in "".join(shown).splitlines() if line.startswith("shedlight serve")]
    assert serve
    for log in (tmp_path / "log.jsonl", tmp_path / "state" / "NAME" / "log.jsonl"):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(text(header(0.0), batch(1.0), decision(2.0)), "utf-8")
    for command in serve:
        with open_shell(tmp_path) as shell:
            printed, _ = shell.run(f"timeout --signal INT 10 {command}")
        assert "http://127.0.0.1:" in printed, printed


@pytest.mark.soak
def test_the_requests_of_the_page_are_answered(tmp_path):
    """Those of its interface; what `jq` picks of the answers is not looked at."""
    shown = "".join(block.text for block in blocks(DOCS / "page.md") if block.language == "sh")
    requests = [line.partition(" | jq")[0] for line in shown.splitlines() if "curl" in line]
    assert len(requests) == 3
    (tmp_path / "log.jsonl").write_text(text(header(0.0), batch(1.0), decision(2.0)), "utf-8")
    with open_shell(tmp_path, SHEDLIGHT_TOKEN="a" * 20) as shell:
        shell.run("shedlight serve log.jsonl --port 8321 > serve.txt 2>&1 &")
        shell.run("until curl -sf localhost:8321/api/status > first.json; do sleep 0.2; done")
        answers = [json.loads(shell.run(request)[0]) for request in requests]
    assert all(isinstance(answer, dict) for answer in answers)
    assert "nodes" in answers[0]


@pytest.mark.soak
def test_the_simulation_of_the_overload_example_is_as_its_page_says(copy):
    """Its two last commands; the figures of its table, but for how the computer counts."""
    page = (copy / "examples" / "overload" / "README.md").read_text("utf-8")
    feed = re.findall(r"^    (python .*/tmp/payments .*)$", page, re.MULTILINE)[0]
    simulate = re.findall(
        r"^    (shedlight simulate .*?)(?=^\S|\Z)", page, re.MULTILINE | re.DOTALL
    )[0]
    row = next(line for line in page.splitlines() if line.startswith("| `local`"))
    mules, rings = (int(cell.replace(",", "")) for cell in row.split("|")[2:4])
    with open_shell(copy) as shell:
        done = [
            shell.run(command.replace("/tmp/payments", "payments"))  # noqa: S108
            for command in (feed, f"{simulate.rstrip()} --json")
        ]
    assert [status for _, status in done] == [0, 0], done
    printed = done[-1][0]
    sinks = json.loads(printed[printed.index("{") :])["sinks"]
    assert sorted(sink["results"] for sink in sinks.values()) == sorted([mules, rings])


def test_every_command_of_the_pages_is_run():
    """So that a command in another form is not overlooked: all of these are in some block."""
    known = {"console", "sh", "python", "yaml", "json", ""}
    followed = {"page.md", "running.md", "tutorial.md", "why.md"}
    for page in DOCS.glob("*.md"):
        shown = [block for block in blocks(page) if not block.file]
        assert {block.language for block in shown} <= known, page.name
        consoles = [block for block in shown if block.language in {"console", "sh"}]
        assert not consoles or page.name in followed, page.name
