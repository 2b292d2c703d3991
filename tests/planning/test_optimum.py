"""Plans reach what shares can do: held against brute force in the simulator."""

import pytest

from tests.optimum import nearness
from tests.workloads import workloads

ENOUGH = 0.97
_BY_NAME = {workload.name: workload for workload in workloads()}


@pytest.mark.parametrize("name", ["weights, 3 per window", "line, 4 per window"])
def test_a_plan_is_near_the_best(name):
    """Two sparse workloads, by a coarse grid."""
    near = nearness(_BY_NAME[name], levels=2, polish=1)
    assert near.share >= ENOUGH
    assert near.found >= near.local


@pytest.mark.soak
@pytest.mark.parametrize("name", _BY_NAME)
def test_all_plans_are_near_the_best(name):
    """All workloads, by a fine grid."""
    near = nearness(_BY_NAME[name], levels=4)
    assert near.share >= ENOUGH
