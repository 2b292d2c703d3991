"""A kernel that is driven by tables against code that is generated for one pattern.

The generated code is what a compiler of patterns would write by hand for a sequence of types
without keys: a list of partial matches per state, and an `if` per symbol. It does less than our
kernel (no keys, no NOT, no REUSE, no heap, no cap), so its speed is an upper bound.
"""

import time
from collections.abc import Callable, Iterator

import numba
import numpy as np

from benchmarks.matching import SEQUENCE
from benchmarks.question import Answer, seconds
from benchmarks.streams import EVENTS, prepared, random_stream

_FRONT = """
def kernel(types, times, window, link, first, node, before, rows, heads, tails):
    used, matches, out = 0, 0, 0
    for i in range(types.shape[0]):
        event_type, now = types[i], times[i]
        for s in range({states}):
            while heads[s] >= 0 and times[first[heads[s]]] < now - window:
                heads[s] = link[heads[s]]
        best = -1
"""
_BRANCH = """
        {word} event_type == {number}:
{cases}
"""
_TAKE = """
            if best < 0 and heads[{state}] >= 0:
                best = heads[{state}]
                heads[{state}] = link[best]
                before[i] = node[best]
                node[best] = i
                {after}
"""
_MOVE = """link[best] = -1
                if heads[{target}] < 0:
                    heads[{target}] = best
                else:
                    link[tails[{target}]] = best
                tails[{target}] = best"""
_EMIT = """matches += 1
                at = i
                while at >= 0:
                    rows[out] = at
                    out += 1
                    at = before[at]"""
_OPEN = """
            if best < 0:
                best = used
                used += 1
                first[best] = i
                node[best] = i
                before[i] = -1
                link[best] = -1
                if heads[0] < 0:
                    heads[0] = best
                else:
                    link[tails[0]] = best
                tails[0] = best
"""


def source_of(sequence: list[int]) -> str:
    """Write the kernel of a sequence of types."""
    cases: dict[int, str] = {}
    for place in range(len(sequence) - 1, 0, -1):
        last = place == len(sequence) - 1
        after = _EMIT if last else _MOVE.format(target=place)
        case = _TAKE.format(state=place - 1, after=after)
        cases[sequence[place]] = cases.get(sequence[place], "") + case
    cases[sequence[0]] = cases.get(sequence[0], "") + _OPEN
    text = _FRONT.format(states=len(sequence) - 1)
    for index, (number, case) in enumerate(cases.items()):
        text += _BRANCH.format(word="elif" if index else "if", number=number, cases=case)
    return text + "    return matches\n"


def _compiled(sequence: list[int]) -> tuple[Callable[..., int], float]:
    """Compile the kernel of a sequence, and time that."""
    scope: dict[str, Callable[..., int]] = {}
    exec(source_of(sequence), scope)  # noqa: S102  # generated code is what is measured
    kernel = numba.njit(scope["kernel"])
    began = time.perf_counter()
    _run(kernel, np.zeros(1, np.int64), np.zeros(1, np.int64))
    return kernel, time.perf_counter() - began


def _run(kernel: Callable[..., int], types: np.ndarray, times: np.ndarray) -> int:
    arrays = [np.empty(len(types) + 1, np.int64) for _ in range(5)]
    heads, tails = np.full(8, -1, np.int64), np.full(8, -1, np.int64)
    return kernel(types, times, 10_000_000, *arrays, heads, tails)


def tables_or_code() -> Iterator[Answer]:
    """Compare our kernel with code generated for the sequence, and what deploying costs."""
    stream = random_stream()
    times = stream.table["time"].to_numpy()
    kernel, compiling = _compiled([0, 0, 1])
    work = prepared(SEQUENCE, stream)
    assert len(work()[1]) == _run(kernel, stream.types, times)  # noqa: S101
    ours = seconds(work)
    theirs = seconds(lambda: _run(kernel, stream.types, times))
    speeds = f"{EVENTS / ours / 1e6:.0f} M events/s against {EVENTS / theirs / 1e6:.0f} M"
    yield Answer("tables against generated code, whole match", ours / theirs, detail=speeds)
    saved = f"{compiling:.2f} s to compile the generated code, each pattern anew"
    even = compiling / max(ours - theirs, 1e-9) * EVENTS / 1e6
    yield Answer("events until generated code pays, millions", even, detail=saved)


QUESTIONS = (tables_or_code,)
