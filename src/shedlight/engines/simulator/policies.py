"""Who decides in a simulation: nobody, the controller, or a baseline to compare it with.

All of them have the same limits and the same pressure between decisions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from shedlight.control.controller import Decision, Memory, Settings, decide
from shedlight.control.observation import (
    Observation,
    Times,
    remembered,
    snapshot_of,
    with_times,
)
from shedlight.control.pressure import pressure
from shedlight.engines.simulator.values import Interval
from shedlight.engines.simulator.watching import observation_of
from shedlight.graph import Application, Stream
from shedlight.model.build import build_model
from shedlight.model.latency import Target, limit_of
from shedlight.model.load import work_of
from shedlight.model.model import Model, OperatorModel
from shedlight.model.rates import predict
from shedlight.shedding.shares import PatternShares, Shares


class Pressed:
    """Lowers the shares of each node by its pressure; what they are is decided by others.

    Args:
        application: What is simulated.
        every: After how many intervals there is a decision.
        pressed: Whether there is pressure at all.
    """

    def __init__(
        self, application: Application, every: int = 1, *, pressed: bool = True
    ) -> None:
        if every < 1:
            raise ValueError(f"a decision after {every} intervals is none")
        self.application = application
        self.factors: list[Mapping[str, float]] = []
        self._every, self._pressed = every, pressed
        self._seen: list[Interval] = []

    def decide(self, interval: Interval) -> Shares | None:
        """Decide if it is time, and put pressure on what was decided."""
        self._seen.append(interval)
        if len(self._seen) == self._every:
            self.observe(observation_of(joined(self._seen)))
            self._seen = []
        factors = {
            name: self._factor(name, interval.backlog.get(name, 0.0))
            for name in self.application.nodes
        }
        self.factors.append(factors)
        shares = self.shares()
        return {
            stream: one.under(factors[self.application.operators[str(stream.operator)].node])
            for stream, one in shares.items()
        }

    def _factor(self, node: str, backlog: float) -> float:
        bound = self.application.nodes[node].bound
        if not self._pressed or bound is None:
            return 1.0
        return pressure(backlog, bound, self.limit(node))

    def observe(self, observation: Observation) -> None:
        """Take an observation in."""
        raise NotImplementedError

    def shares(self) -> Shares:
        """Give what patterns keep, before pressure."""
        raise NotImplementedError

    def limit(self, node: str) -> float:
        """Give the limit of a node as far as it is known, in busy seconds per second."""
        raise NotImplementedError


class Controlled(Pressed):
    """The controller: replans when there is a cause.

    Args:
        application: What is simulated.
        settings: How to control.
        every: After how many intervals it is told what was observed.
        pressed: Whether there is pressure between decisions.
    """

    def __init__(
        self,
        application: Application,
        settings: Settings | None = None,
        every: int = 1,
        *,
        pressed: bool = True,
    ) -> None:
        super().__init__(application, every, pressed=pressed)
        self.memory = Memory(application=application, settings=settings or Settings())
        self.log: list[Decision] = []

    def observe(self, observation: Observation) -> None:
        """Let the controller decide."""
        self.memory, decision = decide(self.memory, observation)
        self.log.append(decision)

    def shares(self) -> Shares:
        """Give those of the plan in force, and all of what it does not plan."""
        return _everything(self.application) | dict(self.memory.shares)

    def limit(self, node: str) -> float:
        """Give the limit of the last decision."""
        return self.log[-1].busy_limits.get(node, 1.0) if self.log else 1.0


class Random(Pressed):
    """Drops whole events, whatever they are, at the rate that keeps the limit.

    Args:
        application: What is simulated.
        target: How bounds are kept.
        every: After how many intervals the rate is set anew.
        pressed: Whether there is pressure in between.
    """

    def __init__(
        self,
        application: Application,
        target: Target | None = None,
        every: int = 1,
        *,
        pressed: bool = True,
    ) -> None:
        super().__init__(application, every, pressed=pressed)
        self._target = target or Target()
        self._shares: Shares = _everything(application)
        self._limits: dict[str, float] = {}
        self._times: Times = {}

    def observe(self, observation: Observation) -> None:
        """Set the share of every node that is over its limit."""
        self._times = remembered(self._times, observation)
        observation = with_times(observation, self._times)
        everyone = [s for spec in self.application.operators.values() for s in spec.outputs]
        model = build_model(
            self.application, snapshot_of(observation, self.application, shed=everyone)
        )
        target = replace(self._target, horizon=2 * observation.interval)
        for node in model.nodes.values():
            limit = limit_of(model, node, target)
            if limit is None:
                continue
            work = work_of(model, limit, predict(model))
            share = min(1.0, work.limit / work.cost) if work.cost > 0 else 1.0
            self._limits[node.name] = work.busy_limit / target.aim
            self._shares = dict(self._shares) | _alike(model, node.name, share)

    def shares(self) -> Shares:
        """Give one share per node."""
        return self._shares

    def limit(self, node: str) -> float:
        """Give the limit of the last observation."""
        return self._limits.get(node, 1.0)


def joined(intervals: Iterable[Interval]) -> Interval:
    """Put intervals together that follow each other."""
    parts = list(intervals)
    last = parts[-1]
    return Interval(
        start=parts[0].start,
        length=sum(one.length for one in parts),
        arrivals={
            name: {
                stream: _added(one.arrivals[name][stream] for one in parts)
                for stream in by_input
            }
            for name, by_input in last.arrivals.items()
        },
        kept={stream: _added(one.kept[stream] for one in parts) for stream in last.kept},
        spent={
            stream: (
                sum(one.spent[stream][0] for one in parts),
                sum(one.spent[stream][1] for one in parts),
            )
            for stream in last.spent
        },
        outputs={s: sum(one.outputs[s] for one in parts) for s in last.outputs},
        busy={node: sum(one.busy[node] for one in parts) for node in last.busy},
        backlog=last.backlog,
        processed={n: sum(one.processed[n] for one in parts) for n in last.processed},
        latency={node: sum(one.latency[node] for one in parts) for node in last.latency},
        unknown=last.unknown,
    )


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for label, number in one.items():
            total[label] = total.get(label, 0) + number
    return total


def _everything(application: Application) -> dict[Stream, PatternShares]:
    """Keep all of everything, where there is a bound, until more is known."""
    return {
        stream: PatternShares({})
        for spec in application.operators.values()
        if application.nodes[spec.node].bound is not None
        for stream in spec.outputs
    }


def _alike(model: Model, node: str, share: float) -> dict[Stream, PatternShares]:
    """Keep the same share of everything at a node."""
    return {
        pattern.stream: PatternShares(dict.fromkeys(_labels(operator), share))
        for operator in model.operators_on(node)
        for pattern in operator.patterns
    }


def _labels(operator: OperatorModel) -> tuple[str, ...]:
    return operator.types
