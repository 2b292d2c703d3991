"""The example notebook: it runs, and prints what stands in it."""

import json
import runpy
from pathlib import Path

import pytest

from shedlight.graph import Stream, load_application

ROOT = Path(__file__).parents[1]
PATH = ROOT / "examples" / "notebook" / "patterns.ipynb"
NOTEBOOK = json.loads(PATH.read_text("utf-8"))


def printed(notebook):
    """Give what each cell printed, without pictures."""
    return [
        [output["text"] for output in cell["outputs"] if "text" in output]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


@pytest.mark.usefixtures("spark")
def test_it_prints_what_stands_in_it():
    """`python scripts/notebook.py` writes that; it ends with a picture."""
    runner = runpy.run_path(str(ROOT / "scripts" / "notebook.py"))

    ran = runner["run_notebook"](NOTEBOOK)

    assert printed(ran) == printed(NOTEBOOK)
    last = [cell for cell in ran["cells"] if cell["cell_type"] == "code"][-1]
    assert [list(output["data"]) for output in last["outputs"]] == [["image/png"]]


def test_it_is_small_and_names_the_pipeline_on_kafka():
    """The picture is the most of it."""
    assert PATH.stat().st_size < 100_000
    text = "".join(line for cell in NOTEBOOK["cells"] for line in cell["source"])
    assert "shedlight new logins --example kafka" in text
    assert "image/png" in NOTEBOOK["cells"][-2]["outputs"][-1]["data"]


def test_the_pipeline_on_kafka_is_its_graph():
    """It finds the same in the same events, on the same nodes."""
    text = next(
        "".join(cell["source"]).split('"""')[1]
        for cell in NOTEBOOK["cells"]
        if "sl.load_application" in "".join(cell["source"])
    )
    pipeline = load_application(ROOT / "examples" / "kafka" / "app.yaml").application

    graphs = [_graph(load_application(text).application), _graph(pipeline)]

    assert graphs[0] == graphs[1]


def _graph(application):
    """Give what an application finds, without where it comes from and goes to."""
    (source,) = application.sources
    return {
        spec.name: (
            spec.node,
            [Stream("logins") if each == Stream(source) else each for each in spec.inputs],
            {
                name: (one.where, one.conditions, one.within, one.partition_by)
                for name, one in spec.patterns.items()
            },
        )
        for spec in application.operators.values()
    }
