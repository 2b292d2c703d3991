"""A wall clock that is set neither stops decisions nor sheds for long."""

import pytest

from shedlight.engines.spark.control.loop_settings import INTERVAL
from tests.engines.spark.control.plant import Plant

RATE, STEP_AT = 40_000.0, 20.0


@pytest.mark.parametrize("step", [-3600.0, -1.5, 3600.0])
def test_decisions_go_on_when_the_wall_clock_is_set(tmp_path, step):
    """Reports are by the wall clock; when a decision is due is not."""
    plant = Plant(tmp_path, {"n": lambda _: RATE}, bounds={"n": 3.0})
    plant.run(STEP_AT)
    before, batches = len(plant.decisions), len(plant.nodes["n"].done)
    plant.step_wall_clock(step)
    plant.run(20)
    longest = max(one.report.seconds for one in plant.nodes["n"].done[batches:])
    assert len(plant.decisions) - before >= 20 / (INTERVAL + longest) - 1
    late = plant.nodes["n"].done[batches + 6 :]
    assert all(1.5 * one.report.seconds < 1.1 * 3.0 for one in late)
    assert all(one.report.kept for one in late)
