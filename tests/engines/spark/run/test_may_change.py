"""What is asked before a checkpoint goes on with another application; nothing runs."""

import json
from types import SimpleNamespace

import pytest

from shedlight.engines.spark.run import change
from shedlight.engines.spark.support.checkpoint_paths import CheckpointPaths
from shedlight.errors import StateError
from shedlight.graph import load_application

SOURCE = {"format": "parquet", "path": "in", "time": "time", "id": ["id"]}
FIND = "SELECT a.id AS one WHERE a.type = 0"


def made(*operators, late=True):
    """Make an application whose operators, each on a node of its own, read one source."""
    more = {"late": {"format": "parquet", "path": "late"}} if late else {}
    row = {
        "name": "change",
        "sources": {"s": SOURCE | more},
        "nodes": {f"on_{name}": {} for name in operators},
        "operators": {
            name: {"node": f"on_{name}", "input": ["s"], "patterns": {name.upper(): FIND}}
            for name in operators
        },
        "sinks": {
            name: {"input": f"{name}.{name.upper()}", "format": "parquet", "path": name}
            for name in operators
        },
    }
    return load_application(json.dumps(row)).application


def test_the_side_output_of_late_events_reads_what_it_has_begun_to_read(tmp_path):
    """Spark numbers what a query reads, and does not go on if it is something else."""
    paths = CheckpointPaths(tmp_path)
    earlier = SimpleNamespace(paths=paths, application=made("w"))
    change._check_late(earlier, made("w", "x"))  # it has not begun

    offsets = paths.delivery("s.late") / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("v1\n{}\n{}")
    change._check_late(earlier, made("w"))
    change._check_late(earlier, made("w", "x", late=False))
    for others in (("w", "x"), ("x",)):
        found = f"was begun with other operators than {', '.join(others)}; have those that"
        with pytest.raises(StateError, match=found):
            change._check_late(earlier, made(*others))

    earlier.application = made("w", "x", late=False)  # it came with no side output
    with pytest.raises(StateError, match="or leave `late` of s out"):
        change._check_late(earlier, made("w", "x"))
