"""Policies of a simulation: the controller, or a baseline to compare it with.

All of them have the same limits and the same pressure between decisions.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from shedlight.control.controller import ControlSettings, Decision, Memory, decide
from shedlight.control.observation import Observation, remember_times, snapshot_of
from shedlight.control.pressure import pressure
from shedlight.engines.simulator.admission import admitted_patterns
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.observation import join_intervals, observation_of
from shedlight.errors import PlanError
from shedlight.graph import Application, operators_on
from shedlight.graph.strata import find_stratified
from shedlight.model.build import build_model
from shedlight.model.latency import Target, node_limit
from shedlight.model.load import NodeLoad, node_load
from shedlight.model.model import Model
from shedlight.model.rates import predict
from shedlight.shedding.shares import PatternShares, Shares, sheddable_by_pressure

Factors = Mapping[str, float]  # the pressure of each node


class PressurePolicy(ABC):
    """A policy that decides every few intervals, with pressure after each, or with none."""

    def __init__(self, application: Application, every: int, *, with_pressure: bool) -> None:
        if every < 1:
            raise ValueError(f"a decision after {every} intervals is none")
        self.factors: list[Factors] = []  # after each interval so far
        self._nodes, self._every, self._with_pressure = application.nodes, every, with_pressure
        self._unobserved: list[Interval] = []
        self._sheddable = sheddable_by_pressure(application)
        self._operators_on = {name: operators_on(application, name) for name in self._nodes}
        self.admitted = admitted_patterns(application)  # one by one; there is no pressure

    def decide(self, interval: Interval) -> Shares:
        """Observe if it is time, and say what patterns keep next under pressure."""
        for observation in self._observations(interval):
            self.observe(observation)
        self.factors.append({name: self._factor(name, interval) for name in self._nodes})
        return self.shares(self.factors[-1])

    def _observations(self, interval: Interval) -> Sequence[Observation]:
        """Give what is to be observed now: at most one observation."""
        if interval.observations is not None:
            return interval.observations
        self._unobserved.append(interval)
        if len(self._unobserved) < self._every:
            return ()
        joined, self._unobserved = join_intervals(self._unobserved), []
        return (observation_of(joined),)

    def _factor(self, node: str, interval: Interval) -> float:
        patterns = (s for spec in self._operators_on[node] for s in spec.outputs)
        has_pressure = self._with_pressure and not self.admitted.issuperset(patterns)
        if interval.observations is not None:  # micro-batches have a pressure of their own
            has_pressure = False
        bound = self._nodes[node].bound if has_pressure else None
        return pressure(interval.backlog.get(node, 0.0), bound, self.limit(node))

    def _lower_shares(
        self, shares: Shares, application: Application, factors: Factors
    ) -> Shares:
        """Lower shares by the pressure of their nodes."""
        return {
            stream: kept
            if stream in self.admitted
            else kept.lower_by(factors[application.operators[str(stream.operator)].node])
            for stream, kept in shares.items()
        }

    @abstractmethod
    def observe(self, observation: Observation) -> None:
        """Decide anew by an observation."""

    @abstractmethod
    def shares(self, factors: Factors) -> Shares:
        """Give what patterns keep under the pressure of each node."""

    @abstractmethod
    def limit(self, node: str) -> float:
        """Give the limit of a node as far as it is known, in busy seconds per second."""


class ControllerPolicy(PressurePolicy):
    """The controller: replans when there is a reason to.

    Args:
        application: What is simulated.
        settings: How to control.
        every: After how many intervals there is an observation.
        with_pressure: Whether there is pressure between decisions.

    Attributes:
        memory: What the controller remembers.
        log: Its decisions.
    """

    def __init__(
        self,
        application: Application,
        settings: ControlSettings | None = None,
        every: int = 1,
        *,
        with_pressure: bool = True,
    ) -> None:
        super().__init__(application, every, with_pressure=with_pressure)
        self.memory = Memory(application=application, settings=settings or ControlSettings())
        self.log: list[Decision] = []

    @property
    def sheds_in_strata(self) -> bool:
        """Whether there are operators whose keys are to be shed in strata."""
        enabled = self.memory.settings.strata.enabled
        return enabled and bool(find_stratified(self.memory.application))

    def observe(self, observation: Observation) -> None:
        """Let the controller decide."""
        self.memory, decision = decide(self.memory, observation)
        self.log.append(decision)

    def shares(self, factors: Factors) -> Shares:
        """Give those of the active plan, and all of what it does not plan."""
        application = self.memory.application
        shares = {**self._sheddable, **self.memory.shares}
        return self._lower_shares(shares, application, factors)

    def limit(self, node: str) -> float:
        """Give the limit of the last decision."""
        return self.log[-1].busy_limits.get(node, 1.0) if self.log else 1.0


class LimitPolicy(PressurePolicy):
    """A policy that keeps the limits of nodes without planning."""

    def __init__(
        self,
        application: Application,
        target: Target | None = None,
        every: int = 1,
        *,
        planned: Application | None = None,
        with_pressure: bool = True,
    ) -> None:
        super().__init__(application, every, with_pressure=with_pressure)
        self._application, self._target = application, target or Target()
        self._planned = planned or application  # as its load is modelled
        self._latest: Observation | None = None
        self._model = Model(nodes={}, operators={}, sinks={})
        self._loads: dict[str, NodeLoad] = {}

    def observe(self, observation: Observation) -> None:
        """Find the work of all nodes if nothing is shed, and their limits."""
        self._latest = observation = remember_times(observation, self._latest)
        snapshot = snapshot_of(observation, self._planned, shed=())
        self._model = build_model(self._planned, snapshot)
        target = replace(self._target, horizon=2 * observation.interval)
        rates = predict(self._model)
        for node in self._model.nodes.values():
            # what a few events took may be longer than the bound; then the limit before stays
            with suppress(PlanError):
                limit = node_limit(self._model, node, target)
                if limit is not None:
                    self._loads[node.name] = node_load(self._model, limit, rates)

    def limit(self, node: str) -> float:
        """Give the limit of the last observation."""
        load = self._loads.get(node)
        return 1.0 if load is None else load.busy_limit / self._target.aim


class RandomPolicy(LimitPolicy):
    """Drops whole events, whatever they are, at the rate that keeps the limit."""

    def shares(self, factors: Factors) -> Shares:
        """Give one share per node that has a limit, and all of others."""
        shares = dict(self._sheddable)
        for node, load in self._loads.items():
            share = min(1.0, load.limit / load.cost) if load.cost > 0 else 1.0
            for operator in self._model.operators_on(node):
                kept = PatternShares(dict.fromkeys(operator.types, share))
                shares |= {pattern.stream: kept for pattern in operator.patterns}
        return self._lower_shares(shares, self._application, factors)
