"""What a controller of 1,000 nodes costs: a plan for all, and what travels to it and back.

A tree of nodes with ten patterns each. A node has a source of 1,000 event types of its own, and
each of its patterns is an AND of 100 of them, and of what that pattern finds at each child.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from statistics import median

import numpy as np

from benchmarks.planning import peak_memory
from benchmarks.question import Answer, processor_seconds
from shedlight.control.averages import NodeCounts, OperatorCounts
from shedlight.control.monitor import MonitorMemory, ReportingRule, observe
from shedlight.engines.spark.control.messages import PlanMessage, plan_to_text
from shedlight.graph.application import Stream
from shedlight.model.arrays import Floats, Ints
from shedlight.model.model import Model, NodeModel, OperatorModel, PatternModel, SinkModel
from shedlight.model.selectivity.demand import plain_demand
from shedlight.planning.plan import Plan, PlanSettings, make_plan
from shedlight.shedding.shares import shares_by_label

NODES, PATTERNS, TYPES, USES, CHILDREN = 1_000, 10, 1_000, 100, 10
_SEED = 1
_RUNS = 3
_RATE = 2.0  # events per second of a type, on average
_WORK = 2.0  # busy seconds per second of a node, if nothing is shed


def tree_model(overloaded: float, number_of_nodes: int = NODES, seed: int = _SEED) -> Model:
    """Draw a model of which a share of the nodes has too much to do, and others half of it."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.5, 1.5, (number_of_nodes, TYPES)) * _RATE
    labels = tuple(f"type={number}" for number in range(TYPES))
    operators, nodes, sinks = {}, {}, {}
    for number in reversed(range(number_of_nodes)):  # children before those that read them
        name = f"node-{number}"
        work = _WORK if rng.random() < overloaded else 0.5
        feeds = _feeds(number, number_of_nodes)
        patterns = _patterns(rng, number, rates[number], work, len(feeds))
        operators[f"w{number}"] = OperatorModel(
            name=f"w{number}",
            node=name,
            types=(*labels, *map(str, feeds)),
            sources={f"s{number}": np.append(rates[number], np.zeros(len(feeds)))},
            feeds={s: _only(TYPES + i, TYPES + len(feeds)) for i, s in enumerate(feeds)},
            patterns=patterns,
        )
        nodes[name] = NodeModel(name=name, bound=1.0)
    for pattern in operators["w0"].patterns:
        sinks[pattern.stream.name] = SinkModel(name=pattern.stream.name, stream=pattern.stream)
    return Model(nodes=nodes, operators=operators, sinks=sinks)


def _feeds(number: int, nodes: int) -> list[Stream]:
    """List what the children of a node find, of so many nodes."""
    first = number * CHILDREN + 1
    return [
        Stream(f"Q{pattern}", f"w{child}")
        for child in range(first, min(first + CHILDREN, nodes))
        for pattern in range(PATTERNS)
    ]


def _only(place: int, size: int) -> Floats:
    spread = np.zeros(size)
    spread[place] = 1.0
    return spread


def _patterns(
    rng: np.random.Generator, number: int, rates: Floats, work: float, feeds: int
) -> tuple[PatternModel, ...]:
    """Draw the patterns of a node, which take so many busy seconds per second together."""
    own = [np.sort(rng.choice(TYPES, USES, replace=False)) for _ in range(PATTERNS)]
    total = sum(float(rates[uses].sum()) for uses in own)
    drawn = []
    for pattern, uses in enumerate(own):
        fed: Ints = TYPES + np.arange(pattern, feeds, PATTERNS)
        mean = work / total * rng.uniform(0.5, 1.5)
        seconds = np.full(USES + len(fed), mean)
        demand = plain_demand(np.append(uses, fed), np.ones(USES + len(fed)))
        drawn.append(
            PatternModel(
                stream=Stream(f"Q{pattern}", f"w{number}"),
                demand=demand,
                seconds=seconds,
                moments=2 * seconds**2,
            )
        )
    return tuple(drawn)


def thousand_nodes_plans() -> Iterator[Answer]:
    """Plan for all nodes at once, in a process of its own; say what the plan is as a message.

    By the program alone, and with what is left of budgets spent.
    """
    for fill in (False, True):
        script = f"from benchmarks.thousand_nodes import measure; measure({NODES}, {fill})"
        done = subprocess.run(  # noqa: S603  # this Python, and the line above
            [sys.executable, "-c", script], check=True, capture_output=True, text=True
        )
        said = done.stdout.splitlines()
        name = f"{NODES:,} nodes x {PATTERNS} x {USES}{', filled' if fill else ''}"
        for share, line in zip(_SHARES, said, strict=False):
            figure, detail = line.split(" ", 1)
            question = f"{name}, {share:.0%} overloaded: plan, seconds"
            yield Answer(question, float(figure), 2.0, detail=detail)
        yield Answer(f"{name}: peak memory, GiB", float(said[-2]), 2.0)
        yield Answer(f"{name}: a plan as messages, MB", float(said[-1]))


_SHARES = (0.1, 1.0)


def measure(nodes: int, fill: bool) -> None:  # noqa: FBT001  # a script calls it
    """Print what plans for so many nodes take, in this process; then memory, and messages."""
    settings, message = PlanSettings(fill=fill), ""
    for share in _SHARES:
        model = tree_model(share, nodes)
        plan = make_plan(model, settings)
        times = processor_seconds(partial(make_plan, model, settings), runs=_RUNS)
        print(f"{median(times):.3f} {_describe(plan)}; processor time")
        shares = shares_by_label(model, plan.keep)
        message = plan_to_text(PlanMessage(epoch=1, number=1, shares=shares), "application")
    print(f"{peak_memory():.3f}")
    print(f"{len(message) / 1e6:.2f}")


def _describe(plan: Plan) -> str:
    over = [name for name, load in plan.loads.items() if not load.fits]
    if over or not plan.objective:
        raise RuntimeError(f"the plan is none: {len(over)} nodes are over their limits")
    return f"{len(plan.nodes)} nodes planned, {plan.objective:.2f} results a second are left"


def thousand_nodes_reports() -> Iterator[Answer]:
    """Simulate what a node with 1,000 event types reports at constant load, and after a jump.

    Counts are Poisson. The rule is the paper's: of averages over so many events those are
    reported that have moved by more than 5 %.
    """
    for events in (1_000, 10_000, 100_000):
        quiet, jump = _traffic(events)
        for what, figure in (("constant load", quiet), ("the 10 s after a jump", jump)):
            yield Answer(
                f"averages over {events:,} events: reports of a node, KB/s, {what}",
                figure / 1e3,
                detail=f"{figure * NODES / 1e6:,.1f} MB/s of 1,000 nodes",
            )


_WARM, _QUIET, _AFTER = 100, 60, 10  # seconds


def _traffic(events: float) -> tuple[float, float]:
    """Give the bytes per second that a node reports: at constant load, and after it jumped."""
    rng = np.random.default_rng(_SEED)
    rates = rng.uniform(0.5, 1.5, TYPES) * _RATE
    chosen = [rng.choice(TYPES, USES, replace=False) for _ in range(PATTERNS)]
    memory = MonitorMemory(rule=ReportingRule(events=events, longest=_WARM))
    sent = [0]
    for second in range(_WARM + _QUIET + _AFTER):
        factor = 1.5 if second >= _WARM + _QUIET else 1.0
        memory, _ = observe(memory, _counts(rng.poisson(rates * factor), chosen, second))
        sent.append(memory.bytes)
    before, jump, end = (sent[at] for at in (_WARM, _WARM + _QUIET, _WARM + _QUIET + _AFTER))
    return (jump - before) / _QUIET, (end - jump) / _AFTER


def _counts(arrived: Ints, chosen: list[Ints], second: int) -> NodeCounts:
    """Write the counts of a second, in which all is kept."""
    kept: dict[Stream, Mapping[str, float]] = {
        Stream(f"Q{number}", "w"): {f"type={use}": float(arrived[use]) for use in uses}
        for number, uses in enumerate(chosen)
    }
    arrivals = {Stream("s"): {f"type={i}": float(n) for i, n in enumerate(arrived)}}
    counts = OperatorCounts(arrivals=arrivals, kept=kept, processed=kept)
    return NodeCounts(node="node", time=float(second), seconds=1.0, operators={"w": counts})


QUESTIONS = (thousand_nodes_plans, thousand_nodes_reports)
