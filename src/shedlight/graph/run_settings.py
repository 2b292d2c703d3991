"""How an application asks to be run on Spark."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class OnStart(Enum):
    """What becomes of events that were stored before a run began."""

    CATCH_UP = "catch up"  # all are matched, and bounds count from then on
    SHED = "shed"  # they arrive when the run begins, and are shed as bounds ask for
    SKIP = "skip"  # those of the time before the checkpoint began are left out

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    """How an application asks to be run on Spark; None: the engine decides.

    The names are those of `Options`, which says more about them; times are in seconds.

    Attributes:
        trigger: How often a query looks for new events.
        shards: Into how many shards the keys of patterns with PARTITION BY are divided.
        delivery_interval: How often deliveries look for complex events.
        watermark_interval: How often shards are sent the watermark, if it has moved.
        idle_timeout: After how long an idle source holds nobody back.
        restarts: How often in a row a query that failed is started again.
        retention: For how long outboxes are kept once everybody has read them.
        record_retention: For how long it stays on record what was shed.
        on_start: What becomes of events that were stored before it began.
        strata: Whether keys that are not alike are planned and shed apart.
    """

    trigger: float | None = None
    shards: int | None = None
    delivery_interval: float | None = None
    watermark_interval: float | None = None
    idle_timeout: float | None = None
    restarts: int | None = None
    retention: float | None = None
    record_retention: float | None = None
    on_start: OnStart | None = None
    strata: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """What it does say, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}
