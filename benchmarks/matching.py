"""What matching costs, and on what the cost does not depend."""

from collections.abc import Callable, Iterator

import numba
import numpy as np

from benchmarks.question import Answer, ratio, seconds
from benchmarks.streams import EVENTS, Stream, prepared, random_stream
from shedlight.language import Pattern, parse_pattern
from shedlight.matching.operators.cep_operator import schema_of
from tests import reference

SEQUENCE = "SELECT A.value WHERE SEQ(A.type = 0, B.type = 0, C.type = 1) WITHIN 10 s"
Work = Callable[[], object]
CONJUNCTION = "SELECT A.value WHERE AND(A.type = 1, B.type = 2, C.type = 3) WITHIN 10 s"


@numba.njit
def _count(types: np.ndarray, counts: np.ndarray) -> None:
    for i in range(types.shape[0]):
        counts[types[i]] += 1


def against_counting() -> Iterator[Answer]:
    """Compare matching with a loop that only counts events per type."""
    stream = random_stream()
    types, counts = stream.types, np.zeros(4, np.int64)
    for name, text in (("SEQ(0;0;1)", SEQUENCE), ("AND(1,2,3)", CONJUNCTION)):
        figure, ours, plain = ratio(prepared(text, stream), lambda: _count(types, counts))
        speed = f"{EVENTS / ours / 1e6:.0f} M events/s against {EVENTS / plain / 1e6:.0f} M"
        yield Answer(f"{name} against counting per type", figure, 50, detail=speed)


def long_window() -> Iterator[Answer]:
    """Compare a window of an hour with one of ten seconds."""
    stream = random_stream()
    short = seconds(prepared(SEQUENCE, stream))
    long = seconds(prepared(SEQUENCE.replace("10 s", "1 h"), stream))
    yield Answer("window of 1 h against 10 s", long / short, 1.5)


def many_partial_matches() -> Iterator[Answer]:
    """Compare a million partial matches with a thousand."""
    few = seconds(_with_open(1_000))
    many = seconds(_with_open(1_000_000))
    yield Answer("1,000,000 partial matches against 1,000", many / few, 2)


def _with_open(partial_matches: int) -> Work:
    """Match a stream with so many partial matches: each event closes one and opens one."""
    text = "SELECT A.value WHERE SEQ(A.type = 0, B.type = 1) WITHIN 10 d"
    warm = random_stream(events=partial_matches, shares=[1.0], types=1)
    opened, _ = prepared(text, warm)()
    types = np.tile([1, 0], EVENTS // 2)
    later = warm.table["time"].to_numpy()[-1]
    table = random_stream().table
    for name, values in (("type", types), ("time", table["time"].to_numpy() + later)):
        table = table.set_column(table.column_names.index(name), name, [values])
    return prepared(text, Stream(table), lambda _: opened)


def many_keys() -> Iterator[Answer]:
    """Compare a hundred thousand keys with one."""
    text = SEQUENCE + " PARTITION BY key"
    one = seconds(prepared(text, random_stream(keys=1)))
    many = seconds(prepared(text, random_stream(keys=100_000, gap=10)))
    yield Answer("100,000 keys against 1", many / one, 8)


def wide_conjunction() -> Iterator[Answer]:
    """Compare an AND over twenty types with one over three."""
    few = seconds(prepared(CONJUNCTION, random_stream(types=3 + 1)))
    parts = ", ".join(f"E{i}.type = {i}" for i in range(20))
    text = f"SELECT E0.value WHERE AND({parts}) WITHIN 10 s"
    many = seconds(prepared(text, random_stream(types=20)))
    yield Answer("AND over 20 types against AND over 3", many / few, 10)


def across_events() -> Iterator[Answer]:
    """Compare conditions across events, a hundred partial matches, with the reference."""
    text = """SELECT A.value WHERE SEQ(A.type = 0, B.type = 1) AND B.value > A.value + 0.98
        WITHIN 200 ms"""
    stream = random_stream(types=2, events=20_000)
    work = prepared(text, stream)
    events = [
        reference.Event(row["time"], 0, (row["id"],), row) for row in stream.table.to_pylist()
    ]
    pattern = _pattern(text, stream)
    expected = reference.match(pattern, events)
    assert len(work()[1]) == len(expected)  # noqa: S101  # a benchmark of the right thing
    slow = seconds(lambda: reference.match(pattern, events), runs=1)
    fast = seconds(work)
    yield Answer(
        "across events, 100 partial matches: reference against kernel",
        slow / fast,
        20,
        at_least=True,
        detail=f"{len(events) / fast:,.0f} events/s",
    )


PAIR = "SELECT A.value WHERE SEQ(A.type = 0, B.type = 1){} WITHIN 10 d"
_ACROSS = ("abs(B.value - A.value) < 0.01", "B.value > A.value * 1.02")


def indexed() -> Iterator[Answer]:
    """Compare conditions that an index answers with none, and many partial matches with few."""
    for condition in _ACROSS:
        text = PAIR.format(f" AND {condition}")
        work, plain = _with_waiting(text, 5_000), _with_waiting(PAIR.format(""), 5_000)
        figure, ours, other = ratio(work, plain, runs=7)
        speed = f"{1e9 * ours / INDEXED:.0f} ns against {1e9 * other / INDEXED:.0f} ns an event"
        name = f"{condition}, 5,000 open: against none"
        yield Answer(name, figure, 8, detail=speed)
        figure, many, few = ratio(
            _with_waiting(text, 100_000), _with_waiting(text, 1_000), runs=5
        )
        speed = f"{1e9 * many / INDEXED:.0f} ns against {1e9 * few / INDEXED:.0f} ns an event"
        name = f"{condition}: 100,000 open against 1,000"
        yield Answer(name, figure, 2, detail=speed)


INDEXED = 2_000_000  # so many that copying the state does not count


def _with_waiting(text: str, partial_matches: int) -> Work:
    """Match events of four types, two of no use, with so many partial matches open."""
    warm = random_stream(events=partial_matches, shares=[1.0], types=1, seed=7)
    opened, _ = prepared(text, warm)()
    table = random_stream(events=INDEXED, seed=5).table
    types = np.tile([1, 0, 2, 3], INDEXED // 4)
    later = warm.table["time"].to_numpy()[-1]
    for name, values in (("type", types), ("time", table["time"].to_numpy() + later)):
        table = table.set_column(table.column_names.index(name), name, [values])
    return prepared(text, Stream(table), lambda _: opened)


def implicit_key() -> Iterator[Answer]:
    """Compare equality that chains all events with PARTITION BY; both find the same."""
    stream = random_stream(events=INDEXED, keys=10_000)
    equal = prepared(PAIR.format(" AND B.key = A.key"), stream)
    keyed = prepared(PAIR.format("") + " PARTITION BY key", stream)
    assert np.array_equal(equal()[1].rows, keyed()[1].rows)  # noqa: S101
    figure, ours, other = ratio(equal, keyed)
    speed = f"{INDEXED / ours / 1e6:.1f} M events/s against {INDEXED / other / 1e6:.1f} M"
    yield Answer("B.key = A.key against PARTITION BY key", figure, 2, detail=speed)


def _pattern(text: str, stream: Stream) -> Pattern:
    return parse_pattern(text, schema_of(stream.table.schema)).pattern


QUESTIONS = (
    against_counting,
    long_window,
    many_partial_matches,
    many_keys,
    wide_conjunction,
    across_events,
    indexed,
    implicit_key,
)
