"""How fast we are beside Siddhi, Flink CEP and what Spark offers, on the same events.

Events are in memory, and what is compared is processor time, that of all threads: from an
event to a complex event, after the same program ran over a fifth of them to warm up. Where a
peer finds another number of matches, the detail says so.
"""

from collections.abc import Iterator

from benchmarks.peers.by_hand import with_a_join, with_a_state, with_a_window
from benchmarks.peers.engines import Cost, run_flink, run_ours, run_siddhi
from benchmarks.peers.workloads import PAIR_BY_KEY, WORKLOADS
from benchmarks.question import Answer

LIMIT = 3


def peers() -> Iterator[Answer]:
    """Compare with Siddhi and Flink CEP, workload by workload."""
    for workload in WORKLOADS:
        ours = run_ours(workload)
        for name, run in (("Siddhi 5.1.30", run_siddhi), ("Flink CEP 2.3.0", run_flink)):
            theirs = run(workload)
            if theirs is not None:
                yield _compared(f"{workload.name}: ours against {name}", ours, theirs)


def peers_by_hand() -> Iterator[Answer]:
    """Compare with what one writes by hand on Spark today, without a start of Spark."""
    ours = run_ours(PAIR_BY_KEY)
    for name, run in (
        ("a self-join in SQL", with_a_join),
        ("a window function in SQL", with_a_window),
        ("applyInPandasWithState", with_a_state),
    ):
        question = f"{PAIR_BY_KEY.name}: ours against {name}"
        yield _compared(question, ours, run(PAIR_BY_KEY), None)


def _compared(question: str, ours: Cost, theirs: Cost, limit: float | None = LIMIT) -> Answer:
    speeds = f"{ours.speed / 1e3:,.0f} k against {theirs.speed / 1e3:,.1f} k events/s"
    same = "as many matches"
    if ours.matches != theirs.matches:
        same = f"{ours.matches:,} against {theirs.matches:,} matches"
    figure = ours.speed / theirs.speed
    return Answer(question, figure, limit, at_least=True, detail=f"{speeds}, {same}")


QUESTIONS = (peers, peers_by_hand)
