"""The requests and answers of the web UI's interface, for its code and for `/openapi.json`.

A decision, an operator, a closure and what the unshed sample says are answered as they are in
the log (`runlog/records.py`).
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from shedlight.runlog.records import (
    ClosureRecord,
    DecisionSummary,
    OperatorRecord,
    SampleRecord,
)

Bound = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class OverrideRequest(BaseModel):
    """Other bounds of nodes, in seconds, and other weights of sinks.

    A bound stays of the mean, or of the percentile, that the application file has.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    bounds: dict[str, Bound] = Field(default_factory=dict, max_length=1000)
    weights: dict[str, Weight] = Field(default_factory=dict, max_length=1000)


class WhatIfRequest(OverrideRequest):
    """What if these were the bounds and weights, and so many times as many events came?"""

    load: Factor = 1.0


class WhyRequest(BaseModel):
    """Why did a pattern, OPERATOR.PATTERN, not match around a time, or for a key?"""

    model_config = ConfigDict(extra="forbid", strict=True)

    pattern: Annotated[str, Field(max_length=400)]
    key: Annotated[str, Field(max_length=400)] | None = None  # as PARTITION BY has it
    time: Annotated[float, Field(ge=0, le=1e11, allow_inf_nan=False)] | None = None


class ExplanationAnswer(BaseModel):
    """Why a pattern did not match, as `shedlight why` prints it."""

    lines: list[str]


class ErrorAnswer(BaseModel):
    """Why a request cannot be met."""

    error: str


class NodeAnswer(BaseModel):
    """A node as it is run; a bound without a percentile is of the mean."""

    bound: float | None
    percentile: int | None = None


class SinkAnswer(BaseModel):
    """A sink as it is run."""

    input: str
    weight: float


class RunAnswer(BaseModel):
    """What is run."""

    application: str
    version: str
    started: float | None
    timed: bool
    simulated: bool  # whether times are virtual
    live: bool
    can_apply: bool
    can_ask_why: bool
    nodes: dict[str, NodeAnswer]
    sources: list[str]
    operators: dict[str, OperatorRecord]
    sinks: dict[str, SinkAnswer]
    closures: dict[str, ClosureRecord]


class TakeAnswer(BaseModel):
    """An element that a partial match in a state can take, and the state that it is in then."""

    element: str
    to: int | None  # None: it is a match


class StateAnswer(BaseModel):
    """A state of the automaton of a pattern."""

    takes: list[TakeAnswer]
    closed_by: list[str]  # the elements under NOT that close a partial match
    ends: bool  # whether it is a match when the window is over


class PatternAnswer(BaseModel):
    """What a pattern looks for; a match needs every region."""

    text: str
    regions: list[list[StateAnswer]]  # empty: it has too many states to be drawn


class PointAnswer(BaseModel):
    """A node at the end of a micro-batch, as in `SeriesAnswer`."""

    time: float
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    rate: float
    kept_rate: float
    kept: float | None
    pressure: float | None
    busy: float | None
    load: float | None
    took: float


class NodeStatusAnswer(NodeAnswer):
    """The status of a node; rates are events per second."""

    status: str
    advice: str
    load: float | None
    headroom: float | None
    latency: dict[str, float]
    rate: float
    kept_rate: float
    shed_share: float
    batch_seconds: float | None
    lag: float | None
    partial_matches: int | None  # None, as the next: it is a simulation, which does not say
    state_bytes: int | None
    pressure: float | None
    explanation: str  # what is shed, and why the node is as busy as it is
    point: PointAnswer | None  # its last micro-batch, as a point of its series


class EdgeAnswer(BaseModel):
    """What flows from a source or an operator to an operator or a sink."""

    origin: str
    target: str
    stream: str
    rate: float
    shed_share: float


class SinkStatusAnswer(SinkAnswer):
    """A sink, with complex events per second as predicted by the plan and as observed."""

    predicted: float | None
    observed: float | None
    unshed_sample: SampleRecord | None = None  # what the unshed sample says of it, if anything


class KeepRow(BaseModel):
    """What a pattern keeps of a type, and why."""

    pattern: str
    type: str
    rate: float | None
    share: float
    price: float | None
    reason: str


class StatusAnswer(BaseModel):
    """The status of a run."""

    time: float | None
    live: bool
    stale_seconds: float | None
    status: str
    bottleneck: str | None
    # the share of the relevant events that no pattern keeps, at the nodes that read sources
    shed_share: float
    plan: int | None
    nodes: dict[str, NodeStatusAnswer]
    edges: list[EdgeAnswer]
    sinks: dict[str, SinkStatusAnswer]
    keep_rows: list[KeepRow]
    omitted_rows: int


class NodeTotalsAnswer(NodeAnswer):
    """Totals of a node; times are seconds, `worst` is of what the bound is of."""

    status: str
    batches: int
    events: int
    kept: int
    shed: int  # relevant events that no pattern kept, with irrelevant ones if that is not known
    irrelevant: int | None  # None: the log does not tell them apart
    mean_latency: float | None
    over_share: float | None
    keeps_bound: bool
    worst: float | None
    worst_time: float | None


class PatternTotalsAnswer(BaseModel):
    """Totals of a pattern; `partial_matches` are those of its last micro-batch, if known."""

    kept: int
    complex_events: int
    seconds: float  # how long matching took
    partial_matches: int | None


class SinkTotalsAnswer(BaseModel):
    """Totals of a sink."""

    input: str
    complex_events: int
    unshed_sample: SampleRecord | None


class TotalsAnswer(BaseModel):
    """Totals of a run since its log begins."""

    began: float | None
    ended: float | None
    live: bool
    starts: int
    decisions: int
    plans: int
    nodes: dict[str, NodeTotalsAnswer]
    patterns: dict[str, PatternTotalsAnswer]
    sinks: dict[str, SinkTotalsAnswer]
    late: dict[str, int]
    malformed: dict[str, int]
    summary: str


class PlanAnswer(DecisionSummary):
    """What was decided last at a time: shares, with their reasons, and what led to them."""

    advice: dict[str, str]
    keep_rows: list[KeepRow]
    omitted_rows: int


class SeriesAnswer(BaseModel):
    """A node over time, a list for each curve; None: it is not known.

    Times are seconds, rates events per second. `kept` is the share of relevant events that some
    pattern kept, `busy` the share of the time that micro-batches took, `load` the busy time as
    a share of its limit.
    """

    node: str
    bound: float | None
    percentile: int | None
    time: list[float]
    mean: list[float | None]
    p50: list[float | None]
    p95: list[float | None]
    p99: list[float | None]
    rate: list[float]
    kept_rate: list[float]
    kept: list[float | None]
    pressure: list[float | None]
    busy: list[float | None]
    load: list[float | None]
    took: list[float]
    statuses: list[tuple[float, str]]  # when it came to have which status
    plans: list[float]  # when there was a new plan


class NodeForecast(NodeAnswer):
    """A node as it would be."""

    load: float | None
    status: str
    advice: str


class SinkForecast(BaseModel):
    """Complex events per second at a sink, as predicted for now and with the changes."""

    current: float | None
    forecast: float | None


class ShareChange(BaseModel):
    """A keep share that would be another."""

    pattern: str
    type: str
    before: float | None
    after: float


class WhatIfAnswer(BaseModel):
    """What would come of other bounds, weights or loads."""

    seconds: float
    nodes: dict[str, NodeForecast]
    sinks: dict[str, SinkForecast]
    changes: list[ShareChange]
    feasible: bool
    summary: str


class ApplyAnswer(BaseModel):
    """The override was stored for the run."""

    applied: bool
    summary: str
