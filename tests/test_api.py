"""The public names: all of them are there, documented, and loaded only when they are used."""

import ast
import importlib
import inspect
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import GenericAlias

import pytest

import shedlight

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")
NAMES = sorted(shedlight.MODULE_OF)


def test_all_public_names_are_imported_by_a_star():
    """And nothing else."""
    imported: dict[str, object] = {}
    exec("from shedlight import *", imported)  # noqa: S102  # only a module may say so
    assert imported.keys() - {"__builtins__"} == {"__version__", *NAMES}


def test_the_page_is_up_to_date():
    """If this fails: `make docs`."""
    assert runpy.run_path(str(ROOT / "scripts" / "api.py"))["page"]() == PAGE


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_documented(name):
    """By a heading, and by a sentence of its own."""
    assert f"\n### {name}\n" in PAGE
    thing = getattr(shedlight, name)
    if isinstance(thing, GenericAlias):  # its text stands below its definition
        assert re.search(rf"```python\n{name} = .+\n```\n\n[A-Z].+\.\n", PAGE)
        return
    doc = inspect.getdoc(thing)
    assert doc
    assert doc.partition("\n")[0].endswith(".")


NOT_CONSTRUCTED = {
    *("Attribute", "Expression", "Item", "Part", "Window"),  # parse_pattern makes them, or dsl
    *("LinkModel", "NodeModel", "OperatorModel", "SinkModel"),  # build_model does
    *("PatternWarning", "Span"),  # parsing
    *(
        "LinkLoad",
        "NodeHealth",
        "NodeLoad",
        "Rates",
        "WatcherPlan",
    ),  # make_plan, the controller
    *("OperatorStrata", "StratumPlan", "Trial"),  # build_model, make_plan
    *("AppliedThreshold", "StratumCounts"),  # simulate
    *("CepOperator",),  # run_application
    *("KeyEvents", "KeyHistory", "StratumObservation"),  # an engine that sheds in strata
    *("ArrivalSketch", "ArrivalStats", "ShardMetrics", "Override"),  # a run on Spark
}
"""Types of arguments and fields whose values users are given."""


def test_whatever_a_caller_must_construct_is_public():
    """The types of all arguments of public functions and constructors."""
    asked = {
        name
        for public in map(shedlight.__getattr__, NAMES)
        for annotation in arguments_of(public)
        for name in re.findall(r"\b[A-Z]\w+", annotation)
    }
    ours = asked & set(own_classes())
    assert ours - set(NAMES) - NOT_CONSTRUCTED == set()
    assert ours >= NOT_CONSTRUCTED


def arguments_of(public):
    """Give the annotations of the arguments of a function or of a constructor, as text."""
    function = vars(public).get("__init__") if inspect.isclass(public) else public
    annotations = dict(getattr(function, "__annotations__", {}))
    annotations.pop("return", None)
    return [
        one.__name__
        if inspect.isclass(one)
        else re.sub(r"typing\.\w+|[\w.]+\.(?=[A-Z])", "", str(one))
        for one in annotations.values()
    ]


def own_classes():
    """Name the classes of the package that are loaded; by now, all that arguments have."""
    return [
        name
        for module in list(sys.modules.values())
        if module.__name__.startswith("shedlight.")
        for name, one in vars(module).items()
        if inspect.isclass(one) and one.__module__.startswith("shedlight.")
    ]


def test_type_checkers_see_what_is_there():
    """The imports that only they read name the same things from the same places."""
    tree = ast.parse(Path(shedlight.__file__).read_text("utf-8"))
    seen = {
        alias.name: str(node.module)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if str(node.module).startswith("shedlight.")
    }
    assert sorted(seen) == NAMES
    for name, place in seen.items():
        assert getattr(importlib.import_module(place), name) is getattr(shedlight, name)


def test_a_name_that_is_not_there_is_an_attribute_error():
    """As of any module."""
    with pytest.raises(AttributeError, match="no attribute 'load_aplication'"):
        _ = shedlight.load_aplication
    assert set(NAMES) <= set(dir(shedlight))


@pytest.mark.parametrize(
    ("first", "loaded", "not_loaded"),
    [
        ("import shedlight", "shedlight", "pyarrow"),
        ("from shedlight import load_application", "shedlight.graph", "pyspark"),
        ("from shedlight import run_application", "pyarrow", "pyspark"),
        ("from shedlight import Live", "pyspark", "matplotlib"),
    ],
)
def test_what_is_not_used_is_not_loaded(first, loaded, not_loaded):
    """Least of all Spark."""
    code = (
        f"{first}; import sys; print({loaded!r} in sys.modules, {not_loaded!r} in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True False\n"


def test_signatures_are_written_as_in_the_code():
    """A function, a dataclass, a class with a constructor, an enumeration."""
    assert "read_snapshot(path: Path, application: Application) -> Snapshot\n" in PAGE
    assert (
        "Node(*, name: str, bound: float | None = None, percentile: int | None = None)\n"
        in PAGE
    )
    assert re.search(r"Live\(\n    application: Application,\n    spark: SparkSession,", PAGE)
    assert "LatencyModel.MG1  # 'mg1'\n" in PAGE
