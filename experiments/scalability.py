"""How long planning takes, by size: the figure "LP-solver runtime" of the paper.

Three things are timed on the same instances (see `instances.py`): the paper's program, the
reduced one, both from model to optimum by the same solver, and a complete plan from arrays to
the shares that every query keeps. `timing.py` measures, `scalability_figure.py` draws.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import product


class ProgramForm(Enum):
    """What is timed."""

    PAPER = "paper"
    REDUCED = "reduced"
    PLAN = "plan"


class Status(Enum):
    """How it ended."""

    OPTIMAL = "optimal"
    NO_ANSWER = "no answer"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """A size of a problem: types, queries, and the share of the queries that use a type."""

    types: int
    queries: int
    share: float

    @property
    def pairs(self) -> float:
        """How many uses of a type by a query there are."""
        return self.types * self.queries * self.share

    def covers(self, other: "Size") -> bool:
        """Say whether the other is not larger in any respect."""
        return (
            other.types <= self.types
            and other.queries <= self.queries
            and other.share <= self.share
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedSolve:
    """One measurement: a row of the results.

    Attributes:
        program: What was timed.
        types: How many types there are.
        queries: How many queries.
        share: The share of the queries that use a type.
        seconds: How long it took; None if there was no answer.
        status: How it ended.
        objective: The optimum: the weighted rate of matches.
        seed: Of the instance.
        repeat: Counted from 0.
        remark: Why there is no answer.
    """

    program: ProgramForm
    types: int
    queries: int
    share: float
    seconds: float | None
    status: Status
    objective: float | None
    seed: int
    repeat: int
    remark: str = ""

    @property
    def size(self) -> Size:
        """The size of the problem."""
        return Size(self.types, self.queries, self.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """The experiment: which sizes, how often, how long.

    Attributes:
        name: The name of its files.
        types: How many types.
        queries: How many queries.
        shares: Shares of the queries that use a type.
        seed: Of all instances.
        time_limit: For a solve, in seconds.
        repeats: How often each thing is timed.
    """

    name: str
    types: tuple[int, ...]
    queries: tuple[int, ...]
    shares: tuple[float, ...]
    seed: int = 1
    time_limit: float = 60.0
    repeats: Mapping[ProgramForm, int] = field(
        default_factory=lambda: {
            ProgramForm.PAPER: 1,
            ProgramForm.REDUCED: 3,
            ProgramForm.PLAN: 3,
        }
    )

    @property
    def sizes(self) -> tuple[Size, ...]:
        """All sizes, from small to large."""
        every = (Size(*one) for one in product(self.types, self.queries, self.shares))
        return tuple(sorted(every, key=lambda size: (size.pairs, size)))

    @property
    def points(self) -> int:
        """How many rows it will have."""
        return len(self.sizes) * sum(self.repeats.values())


FIGURE = Grid(
    name="scalability",
    types=(100, 1_000, 10_000),
    queries=(10, 50, 100),
    shares=(0.1, 0.5, 1.0),
)
QUICK = Grid(
    name="scalability-quick",
    types=(100, 1_000),
    queries=(10, 50),
    shares=(0.1, 0.5, 1.0),
    time_limit=10.0,
)


@dataclass(frozen=True, slots=True)
class ReportedTime:
    """What the paper reports of a size; its instances and its computer are others than ours.

    Attributes:
        size: The size.
        seconds: The time that is named.
        sign: Whether it took less (-1) or more (1) than that, or just as long (0).
        label: As the paper writes it.
    """

    size: Size
    seconds: float
    sign: int
    label: str


REPORTED = (
    ReportedTime(Size(1_000, 50, 1.0), 1.0, -1, "below 1 s"),
    ReportedTime(Size(1_000, 100, 1.0), 1.0, 1, "slightly above 1 s"),
    ReportedTime(Size(10_000, 100, 1.0), 16.25, 0, "16.25 s"),
)


def median_points(points: Iterable[TimedSolve]) -> dict[tuple[ProgramForm, Size], TimedSolve]:
    """Give each program and size one point, at the median of its seconds."""
    groups: dict[tuple[ProgramForm, Size], list[TimedSolve]] = {}
    for point in points:
        groups.setdefault((point.program, point.size), []).append(point)
    return {key: _middle(group) for key, group in groups.items()}


def disagreements(points: Iterable[TimedSolve], tolerance: float = 1e-6) -> tuple[Size, ...]:
    """List the sizes of which the programs found different optima."""
    found: dict[Size, list[float]] = {}
    for point in points:
        if point.objective is not None:
            found.setdefault(point.size, []).append(point.objective)
    return tuple(
        size for size, values in found.items() if min(values) < max(values) * (1 - tolerance)
    )


def _middle(group: list[TimedSolve]) -> TimedSolve:
    """Find the median; a group with a point without an answer has none."""
    ordered = sorted(group, key=lambda one: -1.0 if one.seconds is None else one.seconds)
    return ordered[0] if ordered[0].seconds is None else ordered[(len(ordered) - 1) // 2]
