"""What planning costs: the reduced program against the paper's, and complete plans."""

import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.question import Answer, processor_seconds, ratio, seconds
from experiments.instances import Arrays, draw_arrays, model_of
from experiments.scalability import ProgramForm
from experiments.timing import prepare_solve
from shedlight.model.latency import LatencyModel, Target, node_limit
from shedlight.planning.lp_rows import build_lp_rows
from shedlight.planning.paper import paper_program
from shedlight.planning.plan import Plan, make_plan
from shedlight.planning.reduced_lp import reduced_program

_SEED = 1
_LARGE = (10_000, 100, 1.0)
_HUGE = (100_000, 1_000, 0.1)
_FEWER = (100_000, 100, 0.1)
"""As many types as the huge one and as sparse, with a tenth of the queries."""


def reduced_against_paper() -> Iterator[Answer]:
    """Compare the programs at 1,000 types x 100 queries, all types in all queries."""
    arrays = draw_arrays(1_000, 100, 1.0, _SEED)
    model = model_of(arrays)
    (node,) = model.nodes.values()
    limit = node_limit(model, node, Target(latency=LatencyModel.MM1, aim=1.0))
    if limit is None:
        raise RuntimeError("an instance has a bound and processing times")
    rows = [build_lp_rows(model, {node.name: limit}) for _ in range(6)]
    reduced = [reduced_program(each).program for each in rows]  # solved once, it knows more
    paper, _ = paper_program(model, limit)
    fast = median([_once(program.solve) for program in reduced][1:])
    slow = _once(lambda: paper.solve(time_limit=600))
    yield Answer(
        "1,000 x 100: solving the paper's program / the reduced",
        slow / fast,
        500,
        at_least=True,
        detail=f"{slow:.2f} s against {fast * 1e3:.2f} ms in the solver",
    )
    fast = median(_once(prepare_solve(ProgramForm.REDUCED, arrays, 60)) for _ in range(5))
    slow = _once(prepare_solve(ProgramForm.PAPER, arrays, 600))
    yield Answer(
        "1,000 x 100: the same with writing the programs down",
        slow / fast,
        detail=f"{slow:.2f} s against {fast * 1e3:.1f} ms from model to optimum",
    )


def complete_plan() -> Iterator[Answer]:
    """Plan 10,000 and 1,000 types x 100 queries, all in all: from arrays to all keep shares."""
    for types, limit in ((10_000, 20.0), (1_000, 3.0)):
        arrays = draw_arrays(types, 100, 1.0, _SEED)
        times = processor_seconds(partial(_plan, arrays), runs=50)
        yield Answer(
            f"{types:,} x 100: complete plan, processor milliseconds",
            min(times) * 1e3,
            limit,
            detail=f"the least of {len(times)}; their median is {median(times) * 1e3:.1f}",
        )
    script = "from benchmarks.planning import peak; print(peak())"
    done = subprocess.run(  # noqa: S603  # this Python, and the line above
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    yield Answer(
        "10,000 x 100: peak memory of the process, GiB",
        float(done.stdout),
        1.0,
        detail="with Python, all imports, and the arrays themselves",
    )


def with_transport() -> Iterator[Answer]:
    """Plan the same if an event costs something once, whoever keeps it: rows are added."""
    arrays = draw_arrays(*_LARGE, _SEED, transport=1.0)
    taken = seconds(lambda: _plan(arrays), runs=1)
    yield Answer("10,000 x 100 with transport cost: plan, seconds", taken)


def growth() -> Iterator[Answer]:
    """Compare the time per use of a type by a query with that of a ten times larger problem.

    In turns, each for as many uses: a computer that is shared is not equally fast all the time.
    The limit is for the same share of queries per type. The problem of 10,000 types with every
    type in every query is there for comparison: its types fit a processor's cache, and it
    looks them up in order.
    """
    huge = draw_arrays(*_HUGE, _SEED)
    yield _growth("100,000 x 100 x 0.1", draw_arrays(*_FEWER, _SEED), huge, 1.0)
    yield _growth("10,000 x 100", draw_arrays(*_LARGE, _SEED), huge, None)


def _growth(name: str, large: Arrays, huge: Arrays, limit: float | None) -> Answer:
    few, many = (sum(map(len, one.uses)) for one in (large, huge))
    times = round(many / few)
    figure, other, one = ratio(
        lambda: _plan(huge), lambda: [_plan(large) for _ in range(times)], runs=5
    )
    return Answer(
        f"per type in a query: 100,000 x 1,000 x 0.1 / {name}",
        figure * times * few / many,
        limit,
        detail=f"{other / many * 1e9:.0f} ns against {one / few / times * 1e9:.0f} ns, "
        f"{other:.2f} s in all",
    )


def peak() -> float:
    """Make the complete plan and give the peak memory of this process in GiB."""
    _plan(draw_arrays(*_LARGE, _SEED))
    return peak_memory()


def peak_memory() -> float:
    """Give the peak memory of this process in GiB."""
    status = Path("/proc/self/status")
    if status.exists():  # what getrusage says is that of the parent, if that was more
        (most,) = re.findall(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="ascii"))
        return int(most) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**30


def _plan(arrays: Arrays) -> Plan:
    return make_plan(model_of(arrays))


def _once(work: Callable[[], object]) -> float:
    """Time work that can be done once, or takes so long that warming up does not show."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


QUESTIONS = (reduced_against_paper, complete_plan, with_transport, growth)
