"""What the page's interface says and is told, for its description and for checking input."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, le=1e6, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Factor = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]


class StrictModel(BaseModel):
    """What a request may say: what is not known is refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Changes(StrictModel):
    """Other bounds of nodes, in seconds, and other weights of sinks."""

    bounds: dict[str, Seconds] = Field(default_factory=dict, max_length=1000)
    weights: dict[str, Weight] = Field(default_factory=dict, max_length=1000)


class Question(Changes):
    """What if these were the bounds and weights, and so many times as many events came?"""

    load: Factor = 1.0


class ProblemAnswer(BaseModel):
    """Why a request was refused."""

    error: str


class NodeBound(BaseModel):
    """A node as it is run."""

    bound: float | None


class OperatorPlace(BaseModel):
    """An operator as it is run."""

    node: str
    inputs: list[str]
    patterns: list[str]


class SinkWeight(BaseModel):
    """A sink as it is run."""

    input: str
    weight: float


class RunAnswer(BaseModel):
    """What is run."""

    application: str
    version: str
    started: float | None
    timed: bool
    live: bool
    can_apply: bool
    nodes: dict[str, NodeBound]
    sources: list[str]
    operators: dict[str, OperatorPlace]
    sinks: dict[str, SinkWeight]


class NodeNow(BaseModel):
    """A node now."""

    state: str
    remedy: str
    load: float | None
    bound: float | None
    headroom: float | None
    latency: dict[str, float]
    rate: float
    kept: float
    shed_share: float
    batch_seconds: float | None
    lag: float | None
    partial_matches: int
    state_bytes: int
    pressure: float | None


class Edge(BaseModel):
    """What flows from a source or an operator to an operator or a sink."""

    from_: str = Field(alias="from")
    to: str
    stream: str
    rate: float
    shed: float


class SinkNow(BaseModel):
    """A sink now."""

    input: str
    weight: float
    predicted: float | None
    observed: float | None


class KeepRow(BaseModel):
    """What a pattern keeps of a type, and why."""

    pattern: str
    type: str
    rate: float | None
    share: float
    price: float | None
    reason: str


class NowAnswer(BaseModel):
    """How a run is now."""

    time: float | None
    live: bool
    stale_seconds: float | None
    state: str
    bottleneck: str | None
    plan: int | None
    nodes: dict[str, NodeNow]
    edges: list[Edge]
    sinks: dict[str, SinkNow]
    keeps: list[KeepRow]
    more: int


class LatencyAnswer(BaseModel):
    """The latency of a node over time."""

    node: str
    bound: float | None
    time: list[float]
    mean: list[float]
    p50: list[float]
    p95: list[float]
    p99: list[float]


class DecisionAnswer(BaseModel):
    """A decision."""

    time: float
    reason: str
    replanned: bool
    seconds: float
    states: dict[str, str]
    loads: dict[str, float]


class ForecastNode(BaseModel):
    """A node as it would be."""

    load: float | None
    state: str
    remedy: str
    bound: float | None


class ForecastSink(BaseModel):
    """A sink as it is predicted to be, now and then."""

    now: float | None
    then: float | None


class Change(BaseModel):
    """A share that would be another."""

    pattern: str
    type: str
    before: float | None
    after: float


class WhatIfAnswer(BaseModel):
    """What would come of other bounds, weights or loads."""

    seconds: float
    nodes: dict[str, ForecastNode]
    sinks: dict[str, ForecastSink]
    changes: list[Change]
    feasible: bool
    words: str


class Applied(BaseModel):
    """What was asked for is on its way."""

    applied: bool
    words: str
