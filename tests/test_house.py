"""The laws of CONTRIBUTING.md that no import contract and no linter holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "shedlight"
PURE = ("language", "matching", "graph", "model", "planning", "shedding", "control")
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "now", "today"}
ENDINGS = (
    *("Manager", "Helper", "Util", "Handler", "Processor", "Factory", "Impl", "Info", "Data"),
    *("Params", "Base"),
)
FILES = sorted(SRC.rglob("*.py"))


def trees(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    """Parse the files of packages, or all."""
    for path in FILES:
        name = path.relative_to(SRC)
        if not packages or name.parts[0] in packages:
            yield name, ast.parse(path.read_text("utf-8"))


@pytest.mark.parametrize("package", PURE)
def test_stages_have_no_clock_and_no_dice(package):
    """A clock may be the default of an argument; nobody calls one, or draws unseeded."""
    calls = [
        f"{name}:{node.lineno} {ast.unparse(node)}"
        for name, tree in trees(package)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and reads_the_world(node)
    ]
    assert calls == []


def reads_the_world(call: ast.Call) -> bool:
    """Say whether a call asks for the time, or for numbers that nobody seeded."""
    function = call.func
    if not isinstance(function, ast.Attribute) or not isinstance(function.value, ast.Name):
        unseeded = isinstance(function, ast.Attribute) and function.attr == "default_rng"
        return unseeded and not call.args
    if function.value.id in {"time", "datetime", "date"}:
        return function.attr in CLOCKS
    return function.value.id == "random"


def test_names_say_what_a_thing_is():
    """Not that it manages, helps or handles."""
    classes = [
        f"{name}: {node.name}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith(ENDINGS)
    ]
    assert classes == []


def test_functions_are_not_called_process_or_handle():
    """The name tells what comes back."""
    functions = [
        f"{name}: {node.name}"
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name in {"process", "handle"}
    ]
    assert functions == []


def test_no_module_is_a_dumping_ground():
    """A helper lives beside its only caller, or in a module that is called after it."""
    names = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    assert names.isdisjoint({"utils", "util", "helpers", "common", "base", "types", "misc"})


def test_tests_mirror_the_packages():
    """Every folder of tests but for contracts and fixtures is a package of what is tested."""
    tests = Path(__file__).parent
    folders = {
        path.parent.relative_to(tests)
        for path in tests.rglob("test_*.py")
        if path.parent != tests and "contracts" not in path.parts
    }
    packages = {path.parent.relative_to(SRC) for path in FILES} | {Path("experiments")}
    assert folders <= packages
