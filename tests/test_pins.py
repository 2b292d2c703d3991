"""What is found, planned, simulated and shed is what it was when it was written down."""

import json
from typing import Any

import pytest

from tests.pinned import FOLDER, ON_SPARK, PINS, shed_on_spark


@pytest.mark.parametrize("name", PINS)
def test_results_are_those_that_were_pinned(name):
    """Values, ids and order; numbers of plans and simulations to nine digits."""
    _compare(name, PINS[name]())


@pytest.mark.spark
def test_what_is_shed_on_spark_is_what_was_pinned(spark, tmp_path):
    """The same plan sheds the same events, and the same results are left."""
    _compare(ON_SPARK, shed_on_spark(spark, tmp_path))


def _compare(name: str, results: dict[str, Any]) -> None:
    pinned = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    now = json.loads(json.dumps(results))
    assert now.keys() == pinned.keys()
    for key, value in pinned.items():
        assert now[key] == _nearly(value), key


def _nearly(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _nearly(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_nearly(inner) for inner in value]
    return pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
