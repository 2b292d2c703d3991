"""Who decides in a simulation: nobody, the controller, or a baseline to compare it with.

All of them have the same limits and the same pressure between decisions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.observation import (
    Observation,
    Times,
    remember_times,
    snapshot_of,
    with_times,
)
from shedlight.control.pressure import pressure
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.observation import join_intervals, observation_of
from shedlight.graph import Application, Stream
from shedlight.model.build import build_model
from shedlight.model.latency import Target, node_limit
from shedlight.model.load import NodeLoad, node_load
from shedlight.model.model import Model
from shedlight.model.rates import predict
from shedlight.shedding.shares import PatternShares, Shares, sheddable_by_pressure

Factors = Mapping[str, float]
"""The pressure of each node."""


class Decider(Protocol):
    """Says what patterns keep, by what was observed and by the pressure since then."""

    def observe(self, observation: Observation) -> None:
        """Take an observation in."""

    def shares(self, factors: Factors) -> Shares:
        """Give what patterns keep under the pressure of each node."""

    def limit(self, node: str) -> float:
        """Give the limit of a node as far as it is known, in busy seconds per second."""


class PressureLoop:
    """Tells a decider what happened, every few intervals, and of the pressure after each.

    Args:
        application: What is simulated.
        every: After how many intervals there is an observation.
        pressed: Whether there is pressure at all.

    Attributes:
        factors: The pressure after each interval so far.
    """

    def __init__(self, application: Application, every: int, *, pressed: bool) -> None:
        if every < 1:
            raise ValueError(f"a decision after {every} intervals is none")
        self.factors: list[Factors] = []
        self._nodes, self._every, self._pressed = application.nodes, every, pressed
        self._seen: list[Interval] = []

    def decide(self, decider: Decider, interval: Interval) -> Shares:
        """Let a decider observe if it is time, and say what patterns keep next."""
        self._seen.append(interval)
        if len(self._seen) == self._every:
            decider.observe(observation_of(join_intervals(self._seen)))
            self._seen = []
        self.factors.append(
            {name: self._factor(decider, name, interval) for name in self._nodes}
        )
        return decider.shares(self.factors[-1])

    def _factor(self, decider: Decider, node: str, interval: Interval) -> float:
        bound = self._nodes[node].bound if self._pressed else None
        return pressure(interval.backlog.get(node, 0.0), bound, decider.limit(node))


class ControllerPolicy:
    """The controller: replans when there is a cause.

    Args:
        application: What is simulated.
        settings: How to control.
        every: After how many intervals it is told what was observed.
        pressed: Whether there is pressure between decisions.

    Attributes:
        memory: What the controller remembers.
        log: What it decided.
    """

    def __init__(
        self,
        application: Application,
        settings: ControlSettings | None = None,
        every: int = 1,
        *,
        pressed: bool = True,
    ) -> None:
        self.memory = Memory(application=application, settings=settings or ControlSettings())
        self.log: list[Decision] = []
        self._pressed = PressureLoop(application, every, pressed=pressed)

    @property
    def factors(self) -> list[Factors]:
        """The pressure after each interval."""
        return self._pressed.factors

    def decide(self, interval: Interval) -> Shares:
        """Replan if it is time and there is a cause, and put pressure on the plan."""
        return self._pressed.decide(self, interval)

    def observe(self, observation: Observation) -> None:
        """Let the controller decide."""
        self.memory, decision = decide(self.memory, observation)
        self.log.append(decision)

    def shares(self, factors: Factors) -> Shares:
        """Give those of the plan in force, and all of what it does not plan."""
        application = self.memory.application
        return _under(
            {**sheddable_by_pressure(application), **self.memory.shares}, application, factors
        )

    def limit(self, node: str) -> float:
        """Give the limit of the last decision."""
        return self.log[-1].busy_limits.get(node, 1.0) if self.log else 1.0


class Limits:
    """How much work the nodes have, and how much they may have, for whoever does not plan.

    Args:
        application: What is simulated.
        target: How bounds are kept.

    Attributes:
        model: The application as last observed; what patterns emit is as measured.
        works: The work of every node that has a limit, if nothing is shed there.
    """

    def __init__(self, application: Application, target: Target) -> None:
        self._application, self._target = application, target
        self._times: Times = {}
        self.model = Model(nodes={}, operators={}, sinks={})
        self.works: dict[str, NodeLoad] = {}

    def observe(self, observation: Observation) -> None:
        """Find the work and the limits of all nodes."""
        self._times = remember_times(self._times, observation)
        observation = with_times(observation, self._times)
        snapshot = snapshot_of(observation, self._application, shed=())
        self.model = build_model(self._application, snapshot)
        target = replace(self._target, horizon=2 * observation.interval)
        rates = predict(self.model)
        for node in self.model.nodes.values():
            limit = node_limit(self.model, node, target)
            if limit is not None:
                self.works[node.name] = node_load(self.model, limit, rates)

    def of(self, node: str) -> float:
        """Give the limit of a node as far as it is known, in busy seconds per second."""
        work = self.works.get(node)
        return 1.0 if work is None else work.busy_limit / self._target.aim

    def seconds(self, stream: Stream) -> float:
        """Give the mean processing time of a pattern."""
        seconds = self.model.patterns[stream].seconds
        return float(seconds.mean()) if len(seconds) else 0.0


class RandomPolicy:
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
        self._application = application
        self._limits = Limits(application, target or Target())
        self._pressed = PressureLoop(application, every, pressed=pressed)
        self._shares: Shares = sheddable_by_pressure(application)

    @property
    def factors(self) -> list[Factors]:
        """The pressure after each interval."""
        return self._pressed.factors

    def decide(self, interval: Interval) -> Shares:
        """Set the shares anew if it is time, and put pressure on them."""
        return self._pressed.decide(self, interval)

    def observe(self, observation: Observation) -> None:
        """Set the share of every node that has a limit."""
        self._limits.observe(observation)
        for node, work in self._limits.works.items():
            share = min(1.0, work.limit / work.cost) if work.cost > 0 else 1.0
            self._shares = {**self._shares, **_alike(self._limits.model, node, share)}

    def shares(self, factors: Factors) -> Shares:
        """Give one share per node."""
        return _under(self._shares, self._application, factors)

    def limit(self, node: str) -> float:
        """Give the limit of the last observation."""
        return self._limits.of(node)


def _under(shares: Shares, application: Application, factors: Factors) -> Shares:
    """Lower shares by the pressure of their nodes."""
    return {
        stream: one.under(factors[application.operators[str(stream.operator)].node])
        for stream, one in shares.items()
    }


def _alike(model: Model, node: str, share: float) -> Shares:
    """Keep the same share of everything at a node."""
    return {
        pattern.stream: PatternShares(dict.fromkeys(operator.types, share))
        for operator in model.operators_on(node)
        for pattern in operator.patterns
    }
