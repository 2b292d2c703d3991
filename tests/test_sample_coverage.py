"""The unshed sample tells the truth: its intervals have it in 90 of 100 runs, or more."""

import pytest

from tests.sampled_runs import judge_run

KINDS = {"uniform": (0.0, 0.06), "zipf": (1.2, 0.1)}
"""The exponent of the keys, and the share of them in the sample."""
LOADS = (1.2, 1.5, 2.0, 2.5, 3.0)
RUNS, SOAK_RUNS, SOAK_PARTS = 5, 500, 2


def coverage(kind, seeds):
    """Say how often the intervals of recall and of the true rate have the truth."""
    covered = []
    for seed in seeds:
        for verdict in judge_run(seed, LOADS[seed % len(LOADS)], *KINDS[kind]).values():
            assert verdict.estimate.keys == verdict.keys
            is_known = verdict.estimate.recall is not None
            assert is_known == (verdict.keys >= 50)
            if is_known:
                covered.append((verdict.covers_recall, verdict.covers_rate))
    return [sum(each) / len(each) for each in zip(*covered, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_intervals_have_the_truth_in_most_runs(kind):
    """Under a controller at loads 1.2 to 3; few runs, so a few more may miss it."""
    assert min(coverage(kind, range(RUNS))) >= 0.85


@pytest.mark.soak
@pytest.mark.parametrize("part", range(SOAK_PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_intervals_have_the_truth_in_nine_of_ten_runs(kind, part):
    """1,000 runs, in parts of a quarter of an hour."""
    assert min(coverage(kind, range(part, SOAK_RUNS, SOAK_PARTS))) >= 0.9
