"""The shedders that a simulation can have; they differ in nothing else."""

from dataclasses import replace
from enum import Enum

from shedlight.control.controller import ControlSettings
from shedlight.engines.simulator.espice import UtilityPolicy
from shedlight.engines.simulator.policies import ControllerPolicy, PressurePolicy, RandomPolicy
from shedlight.graph import Application


class Shedder(Enum):
    """Who sheds."""

    GLOBAL = "global"
    LOCAL = "local"
    RANDOM = "random"
    UTILITY = "utility"
    NONE = "none"


def make_policy(
    shedder: Shedder,
    application: Application,
    settings: ControlSettings,
    every: int,
    *,
    planned: Application | None = None,
    with_pressure: bool = True,
) -> PressurePolicy | None:
    """Make the policy of a shedder, which observes every few intervals; None: it sheds nothing.

    A baseline takes nothing but the target of the settings. Plans and limits are for what is
    planned: the application, unless something else is given.
    """
    if shedder is Shedder.NONE:
        return None
    plan_settings = replace(settings.plan_settings, local=shedder is Shedder.LOCAL)
    if shedder in (Shedder.GLOBAL, Shedder.LOCAL):
        settings = replace(settings, plan_settings=plan_settings)
        return ControllerPolicy(
            planned or application, settings, every, with_pressure=with_pressure
        )
    baseline = RandomPolicy if shedder is Shedder.RANDOM else UtilityPolicy
    return baseline(
        application, plan_settings.target, every, planned=planned, with_pressure=with_pressure
    )
