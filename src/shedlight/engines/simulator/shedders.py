"""The shedders that a simulation can have; they differ in nothing else."""

from dataclasses import dataclass, field
from enum import Enum

from shedlight.control.controller import ControlSettings
from shedlight.control.replan_trigger import DEFAULT_POLICY, PAPER_POLICY, ReplanPolicy
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.policies import (
    ControllerPolicy,
    PressurePolicy,
    RandomPolicy,
)
from shedlight.graph import Application
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings


class Shedder(Enum):
    """Who sheds."""

    GLOBAL = "global"
    LOCAL = "local"
    RANDOM = "random"
    UTILITY = "utility"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShedderSettings:
    """How a shedder decides."""

    every: int = 2  # after how many intervals there is an observation
    with_pressure: bool = True  # whether there is pressure between decisions
    target: Target = field(default_factory=Target)  # how bounds are kept
    replan_policy: ReplanPolicy = DEFAULT_POLICY  # when the controller replans


PAPER_SETTINGS = ShedderSettings(
    with_pressure=False,
    target=Target(latency=LatencyModel.MM1, aim=1.0),
    replan_policy=PAPER_POLICY,
)
"""As the paper does it: M/M/1, the whole limit, 10 % either way, no pressure."""


def make_policy(
    shedder: Shedder,
    application: Application,
    settings: ShedderSettings,
    bottleneck: str | None = None,
) -> PressurePolicy | None:
    """Make the policy of a shedder; None if nothing is shed.

    Args:
        shedder: Who sheds.
        application: What is simulated.
        settings: How it decides.
        bottleneck: The node that the controller plans; None: all that are over their limits.
    """
    every, with_pressure = settings.every, settings.with_pressure
    if shedder is Shedder.NONE:
        return None
    if shedder in (Shedder.GLOBAL, Shedder.LOCAL):
        plan_settings = PlanSettings(
            target=settings.target, bottleneck=bottleneck, local=shedder is Shedder.LOCAL
        )
        control = ControlSettings(policy=settings.replan_policy, plan_settings=plan_settings)
        return ControllerPolicy(application, control, every, with_pressure=with_pressure)
    baseline = RandomPolicy if shedder is Shedder.RANDOM else UtilityPolicy
    return baseline(application, settings.target, every, with_pressure=with_pressure)


def planning_effort(policy: PressurePolicy | None) -> tuple[int, float]:
    """Say how often a policy replanned, and how many seconds planning took in all."""
    if not isinstance(policy, ControllerPolicy):
        return 0, 0.0
    plans = sum(decision.plan is not None for decision in policy.log)
    return plans, sum(decision.seconds for decision in policy.log)
