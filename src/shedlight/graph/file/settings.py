"""What an application file may say: the names of its settings, and what each takes.

The models check one part at a time, by the readers of `values.py`. What has to hold between
parts is checked later, in `check.py`.
"""

from typing import Annotated, Any

import pydantic
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from shedlight.graph.application import MAX_JUMP, UNSHED_SAMPLE, TimeUnit
from shedlight.graph.channels import PREFIX
from shedlight.graph.file.values import (
    Amount,
    Bound,
    ChannelFormat,
    Column,
    ColumnNames,
    ColumnType,
    Count,
    DataRate,
    Filled,
    Flag,
    LinkEdge,
    Name,
    PositiveTime,
    Prefix,
    Sample,
    Shards,
    Share,
    Single,
    Start,
    Text,
    Texts,
    Time,
    Unit,
    ValueFormat,
    Way,
    Zone,
    filled,
    or_default,
)
from shedlight.graph.kafka import KAFKA


class StrictSettings(BaseModel):
    """Any part of the file; a setting without a value is as good as none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _without_empty(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        known = {field.alias or name for name, field in cls.model_fields.items()}
        empty = {name for name, inner in value.items() if inner is None}
        return {name: value[name] for name in value if name not in empty & known}


class LocationSettings(StrictSettings):
    """Where something is read or written."""

    format: Text = Field(description="a format of Spark, such as parquet")
    path: Text | None = Field(None, description="where the files are")
    options: dict[Text, Text] = Field({}, description="what else the format needs")


class ValueSettings(StrictSettings):
    """How the values of Kafka's records are written."""

    format: ValueFormat = Field(description="json, or csv without a header")
    declared: Annotated[dict[Column, ColumnType], BeforeValidator(filled)] = Field(
        alias="schema", description="the fields of a value and their data types"
    )
    options: dict[Text, Text] = Field({}, description="what else the format needs")


class SourceSettings(LocationSettings):
    """Where events come from."""

    time: Column = Field(description="the column with the time of an event")
    time_unit: Unit = Field(TimeUnit.MICROSECONDS, description="what a time of numbers counts")
    time_zone: Zone | None = Field(
        None, description="the time zone of times that have none, such as Europe/Berlin"
    )
    id: ColumnNames | None = Field(
        None,
        validate_default=True,
        description="the columns that identify an event",
    )
    value: ValueSettings | None = Field(
        None, description="how the values of Kafka's records are written"
    )
    columns: dict[Column, Text] = Field({}, description="derived columns, as expressions")
    declared: Annotated[dict[Column, ColumnType] | None, BeforeValidator(filled)] = Field(
        None,
        alias="schema",
        description="the data types of the columns, if not read from the data",
    )
    lateness: Time = Field(
        0,
        description="how far behind the latest an event may be",
        json_schema_extra={"default": "0 s"},
    )
    max_jump: PositiveTime = Field(
        MAX_JUMP,
        description="how far ahead of the clock the time of an event may be",
        json_schema_extra={"default": "1 day"},
    )
    idle: PositiveTime | None = Field(
        None, description="after how long without events it holds back no operator"
    )
    arrival: Column | None = Field(None, description="the column with the time of arrival")
    late: LocationSettings | None = Field(None, description="where late events go")
    malformed: LocationSettings | None = Field(None, description="where malformed records go")

    @pydantic.field_validator("id")
    @classmethod
    def _identified(
        cls, value: list[str] | None, info: pydantic.ValidationInfo
    ) -> list[str] | None:
        if value is None and str(info.data.get("format")).lower() != KAFKA:
            raise PydanticCustomError("missing", "Field required")
        return value


class NodeSettings(StrictSettings):
    """Where operators run."""

    bound: Bound | None = Field(
        None,
        description="the mean time that an event may spend here, such as 3 s; or what a "
        "percentile from p50 to p99 may be, such as {p95: 3 s}",
    )


class OperatorSettings(StrictSettings):
    """Patterns over the same inputs."""

    node: Text = Field(description="the node that it runs on")
    input: Texts = Field(description="what it reads: sources, or patterns as operator.pattern")
    patterns: Filled[Text] = Field(description="what it looks for")
    never_shed: Texts | None = Field(None, description="types that are always kept, by label")
    shed_by: Way | None = Field(
        None,
        description="what is shed as one: an event, or all events of a key; by default a key "
        "where patterns have PARTITION BY",
    )


class SinkSettings(StrictSettings):
    """Where the complex events of a pattern go."""

    input: Single = Field(description="the pattern whose complex events it takes")
    timed_out: Flag = Field(
        False,  # noqa: FBT003  # pydantic's way
        description="whether it takes what timed out instead of the matches",
    )
    weight: Amount = Field(1.0, description="what one complex event is worth here")
    min_rate: Amount = Field(
        0.0, description="the least complex events per second, a constraint on plans"
    )
    min_share: Share = Field(
        0.0, description="the least share of its complex events, a constraint on plans"
    )
    format: Text = Field(description="a format of Spark, such as parquet")
    path: Text | None = Field(None, description="where to write the files")
    options: dict[Text, Text] = Field({}, description="what else the format needs")

    @pydantic.field_validator("weight", "min_rate", "min_share")
    @classmethod
    def _counts(cls, value: float, info: pydantic.ValidationInfo) -> float:
        if value and info.data.get("timed_out"):
            raise ValueError(
                "has no meaning with timed_out: plans do not count what timed out; leave it out"
            )
        return value


class FunctionSettings(StrictSettings):
    """A function that patterns may call."""

    python: Text | None = Field(
        None, description="a function of Python on columns, as module:function"
    )
    spark: Text | None = Field(
        None, description="the name of a function that is registered with Spark"
    )
    returns: ColumnType = Field(description="the data type of what it gives, such as double")


class RunFileSettings(StrictSettings):
    """How it is run on Spark; the command line has the same, and wins."""

    trigger: PositiveTime | None = Field(
        None, description="how often a query looks for new events"
    )
    shards: Shards = Field(
        None, description="into how many shards keys are divided; auto: as many as cores"
    )
    delivery_interval: PositiveTime | None = Field(
        None, description="how often deliveries look for complex events"
    )
    watermark_interval: PositiveTime | None = Field(
        None, description="how often shards are sent the watermark, if it has moved"
    )
    idle_timeout: PositiveTime | None = Field(
        None, description="after how long an idle source holds back no operator"
    )
    restarts: Count | None = Field(
        None, description="how often in a row a query that failed is started again"
    )
    retention: PositiveTime | None = Field(
        None, description="how long outboxes are kept once everybody has read them"
    )
    record_retention: PositiveTime | None = Field(
        None, description="how long it stays on record what was shed"
    )
    on_start: Start | None = Field(
        None, description="what becomes of events that were stored before it began"
    )
    strata: Flag | None = Field(
        None, description="whether keys that are not alike are planned and shed apart"
    )


class ChannelSettings(StrictSettings):
    """How complex events get from node to node."""

    format: ChannelFormat = Field(description="kafka")
    options: dict[Text, Text] = Field(description="where the brokers are, and what else")
    prefix: Prefix = Field(PREFIX, description="what the names of topics begin with")
    links: dict[LinkEdge, DataRate] = Field(
        {}, description="how much gets from one node to another, where that is limited"
    )


class ApplicationSettings(StrictSettings):
    """A whole file."""

    name: Name = Field(description="what the application is called")
    sources: Filled[SourceSettings] = Field(description="where events come from")
    nodes: Filled[Annotated[NodeSettings | None, BeforeValidator(or_default)]] = Field(
        description="where operators run"
    )
    operators: Filled[OperatorSettings] = Field(description="the patterns, and what they read")
    sinks: Filled[SinkSettings] = Field(description="where complex events go")
    functions: dict[Name, FunctionSettings] = Field(
        {}, description="functions of your own that patterns and derived columns may call"
    )
    run: Annotated[RunFileSettings | None, BeforeValidator(or_default)] = Field(
        None, validate_default=True, description="how it is run on Spark"
    )
    channels: ChannelSettings | None = Field(
        None, description="how complex events get from node to node; by default through folders"
    )
    unshed_sample: Sample = Field(
        UNSHED_SAMPLE,
        description="the share of keys that is never shed, to estimate what is lost by",
    )


def application_json_schema() -> dict[str, Any]:
    """Describe the application file for editors, as JSON Schema."""
    schema = ApplicationSettings.model_json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "Shedlight application",
    }
