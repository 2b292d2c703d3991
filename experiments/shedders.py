"""Settings of the shedders that are compared: ours, and the paper's."""

import math
from dataclasses import dataclass, field

from experiments.running_example import BOTTLENECK
from shedlight.control.controller import ControlSettings
from shedlight.control.replan_trigger import DEFAULT_POLICY, ReplanPolicy
from shedlight.engines.simulator.policies import ControllerPolicy, PressurePolicy
from shedlight.engines.simulator.shedders import Shedder, make_policy
from shedlight.graph import Application
from shedlight.model.latency import LatencyModel, Target
from shedlight.planning.plan import PlanSettings

PAPER_POLICY = ReplanPolicy(
    over=1.1,
    under=0.9,
    watches_latency=False,
    types=math.inf,
    yields=math.inf,
    backlog_reserve=math.inf,
    moved=0.0,
    urgent=0.0,
    jump_threshold=0.0,
    cooldown=0,
    persistence=1,
    noise=0.0,
)
"""The rule of the paper: busy time 10 % off its limit in either direction, and nothing else."""


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


def bottleneck_policy(
    shedder: Shedder, application: Application, settings: ShedderSettings
) -> PressurePolicy | None:
    """Make the policy of a shedder, which plans nothing but the bottleneck."""
    plan_settings = PlanSettings(target=settings.target, bottleneck=BOTTLENECK)
    control = ControlSettings(policy=settings.replan_policy, plan_settings=plan_settings)
    pressure = settings.with_pressure
    return make_policy(shedder, application, control, settings.every, with_pressure=pressure)


def planning_effort(policy: PressurePolicy | None) -> tuple[int, float]:
    """Say how often a policy replanned, and how many seconds planning took in all."""
    if not isinstance(policy, ControllerPolicy):
        return 0, 0.0
    plans = sum(decision.plan is not None for decision in policy.log)
    return plans, sum(decision.seconds for decision in policy.log)
