"""The log of a run as values: how it began, its micro-batches, its decisions, wishes for it.

`run_row` is the record that a run begins with; it says what the others are about.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shedlight.graph import Application


@dataclass(frozen=True, slots=True)
class OperatorRecord:
    """An operator: where it runs, what it reads, what it looks for."""

    node: str
    inputs: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """How a run began.

    Attributes:
        time: When, in seconds since 1970.
        application: The name of the application.
        version: Of Shedlight.
        timed: Whether events came while it ran; if not, latency says nothing.
        bounds: The bound of each node in seconds; None: it never sheds.
        sources: The names of the sources.
        operators: The operators, by name.
        sinks: The pattern that each sink is given.
        weights: What a complex event is worth at each sink.
    """

    time: float
    application: str = ""
    version: str = ""
    timed: bool = True
    bounds: Mapping[str, float | None] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    operators: Mapping[str, OperatorRecord] = field(default_factory=dict)
    sinks: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRecord:
    """What a pattern did in a micro-batch.

    Attributes:
        kept: How many events it was given.
        seconds: How long it took.
        found: How many complex events it found.
        partial_matches: How many machines are open.
        types: How many events of each type there were, before shedding, if it was logged; of
            many types those that came most often.
        offered: How many events of all types that it uses there were, if it was logged.
    """

    kept: int = 0
    seconds: float = 0.0
    found: int = 0
    partial_matches: int = 0
    types: Mapping[str, int] = field(default_factory=dict)
    offered: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatchRecord:
    """A micro-batch of a node.

    Attributes:
        time: When it ended, in seconds since 1970.
        node: The node.
        number: Its id.
        seconds: How long it took.
        events: How many events were read.
        kept: How many of them some pattern kept.
        relevant_events: How many of them some pattern had a use for; None: it was not logged.
        lag: How long ago the newest event had arrived when it ended, in seconds.
        latency: In seconds, under `mean`, `p50`, `p95` and `p99`; empty if nothing was kept.
        state: How many bytes of state the groups have that had something to do.
        refused: How many records of each source were no events.
        late: How many events were late at each operator, since the checkpoint was begun.
        patterns: By operator and name.
        arrived: How many events each operator was sent by each of its inputs.
        plan: The number of the plan that it used, if it was logged.
        pressure: By what the shares of the plan were lowered, if it was logged.
    """

    time: float
    node: str
    number: int = 0
    seconds: float = 0.0
    events: int = 0
    kept: int = 0
    relevant_events: int | None = None
    lag: float | None = None
    latency: Mapping[str, float] = field(default_factory=dict)
    state: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    patterns: Mapping[str, PatternRecord] = field(default_factory=dict)
    arrived: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    plan: int | None = None
    pressure: float | None = None

    @property
    def shed(self) -> int:
        """How many events were not kept; where `relevant_events` is not known, all."""
        return max(
            0,
            (self.events if self.relevant_events is None else self.relevant_events) - self.kept,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRecord:
    """A decision of the controller.

    Attributes:
        time: When, in seconds since 1970.
        reason: In words.
        replanned: Whether a new plan came of it.
        seconds: How long it took.
        loads: The busy time of each node with a limit, as a share of the limit.
        states: How each node is, in a word.
        remedies: What can be done about it.
        shares: What share of each type each pattern keeps from now on; of many types those of
            which most is shed.
        rates: How many events of these types come in a second, before shedding.
        more: How many shares are left out.
        sinks: How many complex events each sink gets in a second, as the plan in force says.
        prices: What one more busy millisecond per second of a node would bring, by the last
            plan that was made; empty: none was made now.
    """

    time: float
    reason: str = ""
    replanned: bool = False
    seconds: float = 0.0
    loads: Mapping[str, float] = field(default_factory=dict)
    states: Mapping[str, str] = field(default_factory=dict)
    remedies: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    rates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    more: int = 0
    sinks: Mapping[str, float] = field(default_factory=dict)
    prices: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OverrideRecord:
    """What became of a wish for other bounds or weights.

    Attributes:
        time: When it was taken up, in seconds since 1970.
        bounds: The bounds from then on, in seconds.
        weights: The weights of sinks from then on.
        refused: Why it was not taken up; empty: it was.
    """

    time: float
    bounds: Mapping[str, float] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    refused: str = ""


Record = RunHeader | MicroBatchRecord | DecisionRecord | OverrideRecord


def run_row(
    application: Application, time: float, *, version: str = "", timed: bool = True
) -> dict[str, Any]:
    """Write the record that the log of a run should begin with.

    Args:
        application: What is run.
        time: Now, in seconds since 1970.
        version: Of Shedlight.
        timed: Whether events come while it runs.
    """
    sinks = {name: one for name, one in application.sinks.items() if not one.timed_out}
    return {
        "kind": "run",
        "time": time,
        "application": application.name,
        "version": version,
        "timed": timed,
        "nodes": {name: {"bound": node.bound} for name, node in application.nodes.items()},
        "sources": list(application.sources),
        "operators": {
            name: {
                "node": spec.node,
                "inputs": list(map(str, spec.inputs)),
                "patterns": list(spec.patterns),
            }
            for name, spec in application.operators.items()
        },
        "sinks": {name: str(sink.input) for name, sink in sinks.items()},
        "weights": {name: sink.weight for name, sink in sinks.items()},
    }
