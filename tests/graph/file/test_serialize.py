"""An application as text: read again, it is planned for as before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shedlight.graph import ShedBy, Sink, Stream, load_application
from shedlight.graph.file.serialize import ELSEWHERE, application_text
from shedlight.language.ast.data_type import DataType
from tests.engines.applications import paper_application

EXAMPLES = sorted(Path(__file__).parents[3].glob("examples/*/*.yaml"))


def without_places(application):
    """Leave out what says where and not what."""
    nowhere: dict[str, Any] = {"format": ELSEWHERE, "path": None, "options": {}}
    place: dict[str, Any] = {**nowhere, "value": None}
    bare = {"idle": None, "arrival": None, "late": None, "malformed": None}
    return replace(
        application,
        sources={n: replace(s, **place, **bare) for n, s in application.sources.items()},
        sinks={n: replace(s, **nowhere) for n, s in application.sinks.items()},
    )


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_examples_are_read_as_they_were_written(path):
    """All but formats, paths and options."""
    application = load_application(path).application
    again = load_application(application_text(application)).application
    assert again == without_places(application)


def test_there_are_examples():
    """Else nothing is tested above."""
    assert len(EXAMPLES) > 2


def test_an_application_made_in_python_can_be_written():
    """With constraints on shedding, and the columns that the data had."""
    application = paper_application()
    schema = {"id": DataType.BIGINT, "type": DataType.BIGINT, "time": DataType.BIGINT}
    nested = schema | {"at": DataType.STRUCT, "at.x": DataType.DOUBLE, "at.in": DataType.STRUCT}
    sources = {n: replace(s, schema=schema) for n, s in application.sources.items()}
    sources["s1"] = replace(sources["s1"], schema=nested | {"at.in.y": DataType.STRING})
    operators = dict(application.operators)
    operators["w1"] = replace(operators["w1"], never_shed=("type=0",), shed_by=ShedBy.EVENT)
    slow = Sink(
        name="slow", input=Stream("Q11", "w1"), timed_out=True, weight=0, format="console"
    )
    parts = {"sources": sources, "operators": operators}
    nodes = {
        n: replace(node, percentile=95) for n, node in application.nodes.items() if node.bound
    }
    parts |= {"nodes": application.nodes | nodes, "sinks": {**application.sinks, "slow": slow}}
    application = replace(application, **parts)
    again = load_application(application_text(application)).application
    assert again == without_places(application)


def test_columns_of_a_kind_without_a_name_are_left_out():
    """Patterns cannot use them, and nothing else of the schema is needed."""
    application = paper_application()
    odd = {"id": DataType.BIGINT, "tags": DataType.UNKNOWN}
    sources = {n: replace(s, schema=odd) for n, s in application.sources.items()}
    again = load_application(application_text(replace(application, sources=sources)))
    assert all(one.schema is None for one in again.application.sources.values())


def test_no_secret_is_written():
    """Neither options nor paths."""
    application = paper_application()
    secret = {"kafka.sasl.jaas.config": "hunter2"}
    sources = {n: replace(s, options=secret) for n, s in application.sources.items()}
    sinks = {n: replace(s, options=secret, path="vault") for n, s in application.sinks.items()}
    text = application_text(replace(application, sources=sources, sinks=sinks))
    assert "hunter2" not in text
    assert "vault" not in text
