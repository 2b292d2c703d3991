"""Who sheds in an experiment; they differ in nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from shedlight.control.controller import ControlSettings
from shedlight.control.replan_trigger import DEFAULT_POLICY, PAPER_POLICY, ReplanPolicy
from shedlight.engines.simulator.api import Interval
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.policies import ControllerPolicy, RandomPolicy
from shedlight.graph import Application
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings
from shedlight.shedding.shares import Shares


class Shedder(Enum):
    """Who sheds."""

    GLOBAL = "global"
    LOCAL = "local"
    RANDOM = "random"
    UTILITY = "utility"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShedderSettings:
    """How is decided.

    Attributes:
        every: After how many intervals there is an observation.
        pressed: Whether there is pressure between decisions.
        latency: How the bound becomes a limit.
        aim: The share of the limit to aim at.
        rule: When to replan.
    """

    every: int = 2
    pressed: bool = True
    latency: LatencyModel = LatencyModel.MG1
    aim: float = 0.9
    rule: ReplanPolicy = DEFAULT_POLICY

    @property
    def target(self) -> Target:
        """How the bound is kept."""
        return Target(latency=self.latency, aim=self.aim)


PAPER_SETTINGS = ShedderSettings(
    pressed=False, latency=LatencyModel.MM1, aim=1.0, rule=PAPER_POLICY
)
"""As the paper does it: M/M/1, the whole limit, 10 % either way, no pressure."""


class Deciding(Protocol):
    """A policy that tells of its pressure."""

    @property
    def factors(self) -> list[Mapping[str, float]]:
        """The pressure of each node after each interval."""

    def decide(self, interval: Interval) -> Shares:
        """Give the shares of the next interval."""


def policy_of(
    shedder: Shedder, application: Application, control: ShedderSettings, bottleneck: str
) -> Deciding | None:
    """Make a policy that plans one node; None sheds nothing."""
    if shedder is Shedder.NONE:
        return None
    if shedder in (Shedder.GLOBAL, Shedder.LOCAL):
        plan_settings = PlanSettings(
            target=control.target, bottleneck=bottleneck, local=shedder is Shedder.LOCAL
        )
        settings = ControlSettings(policy=control.rule, plan_settings=plan_settings)
        return ControllerPolicy(application, settings, control.every, pressed=control.pressed)
    kind = RandomPolicy if shedder is Shedder.RANDOM else UtilityPolicy
    return kind(application, control.target, control.every, pressed=control.pressed)


def planning(policy: Deciding | None) -> tuple[int, float]:
    """Say how often a policy replanned, and how many seconds planning took in all."""
    if not isinstance(policy, ControllerPolicy):
        return 0, 0.0
    plans = sum(decision.plan is not None for decision in policy.log)
    return plans, sum(decision.seconds for decision in policy.log)
