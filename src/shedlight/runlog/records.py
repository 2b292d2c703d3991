"""The records of a run's log, and how a line becomes one.

The engine writes its log by these models and everybody else reads it by them. A log is read
while it is being written, or by another version: what is missing in a record or malformed has a
default, and only a record without its time, or a micro-batch without its node, is none.
"""

import json
from dataclasses import astuple
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from shedlight.graph import Application
from shedlight.graph.closures import find_closures
from shedlight.graph.topology import key_name
from shedlight.shedding.estimate import SinkEstimate

LOG_FORMAT = 2
"""The format of the log that this version writes and reads; 1 had other names for its keys."""

_YEAR_9999 = 253_370_764_800
MAX_NUMBER = 10**15  # numbers beyond it are malformed: nothing measured is that large


Time = Annotated[float, Field(ge=0, lt=_YEAR_9999)]
Number = Annotated[float, Field(ge=-MAX_NUMBER, le=MAX_NUMBER)]
Seconds = Annotated[float, Field(ge=0, le=MAX_NUMBER)]
Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]


class LogFormatError(ValueError):
    """A record of a log format that this version does not read."""


class LogModel(BaseModel):
    """What the models of the log have in common; keys that are not known are left out."""

    model_config = ConfigDict(frozen=True, strict=True)


class OperatorRecord(LogModel):
    """An operator: where it runs, what it reads, what it looks for."""

    node: str = ""
    inputs: list[str] = []
    patterns: list[str] = []


class ClosureRecord(LogModel):
    """What a pattern watches, and what must be whole for that."""

    watches: list[str] = []
    members: list[str] = []  # the patterns upstream that are whole, for a key or altogether
    key: str = ""  # the key by which all of it is shed; empty: it is on or off


class RunHeader(LogModel):
    """What is run, written at each start."""

    record: Literal["run"] = "run"
    format: int = LOG_FORMAT  # the format of the records that follow
    time: Time  # when it was started, in seconds since 1970
    application: str = ""  # the name of the application
    version: str = ""  # of Shedlight
    timed: bool = True  # whether events came while it ran; if not, latency says nothing
    simulated: bool = False  # whether it is a simulation, whose times are virtual
    # the bound of each node in seconds; None: it never sheds
    bounds: dict[str, Number | None] = {}
    # of which percentile of latency the bound of a node is; without one it is of the mean
    percentiles: dict[str, Count] = {}
    sources: list[str] = []  # the names of the sources
    operators: dict[str, OperatorRecord] = {}  # the operators, by name
    pattern_texts: dict[str, str] = {}  # what each looks for, by its operator and name
    sinks: dict[str, str] = {}  # the pattern that each sink is given
    weights: dict[str, Number] = {}  # what a complex event is worth at each sink
    closures: dict[str, ClosureRecord] = {}  # the protected closures, by their watchers


class PatternRecord(LogModel):
    """What a pattern did in a micro-batch."""

    kept: Count = 0  # how many events it was given
    seconds: Seconds = 0.0  # how long matching took
    matches: Count = 0  # how many complex events it found
    partial_matches: Count = 0  # how many partial matches there are
    cancelled: Count = 0  # how many were cancelled, for their key was not whole any more
    # how many events of each type there were before shedding, if it was logged; of many types
    # those that came most often
    types: dict[str, Count] = {}
    # how many events of all types that it uses there were, if it was logged
    offered: Count | None = None


class SampleRecord(LogModel):
    """What the unshed sample says of a sink so far; it speaks of all keys but heavy hitters."""

    keys: Count = 0  # the sample's keys that have results without shedding
    # the share of the results without shedding that the plan leaves, and its 95 % interval;
    # None: not known
    recall: Number | None = None
    recall_low: Number | None = None
    recall_high: Number | None = None
    # the results per second without shedding, and the interval
    rate: Number | None = None
    rate_low: Number | None = None
    rate_high: Number | None = None
    unknown: str = ""  # why they are not known; empty if they are
    heavy_hitters: Count = 0  # how many keys are counted by themselves
    heavy_work: Number = 0.0  # their share of the work
    heavy_results: Count = 0  # the results that the sink got of them


class MicroBatchRecord(LogModel):
    """A micro-batch of a node."""

    record: Literal["micro_batch"] = "micro_batch"
    time: Time  # when it ended, in seconds since 1970
    node: str  # the node
    number: Count = 0  # its id
    seconds: Seconds = 0.0  # how long it took
    events: Count = 0  # how many events were read
    kept: Count = 0  # how many of them some pattern kept
    # how many of them some pattern can take; None: it was not logged
    relevant_events: Count | None = None
    # how long ago the newest event had arrived when it ended, in seconds
    lag: Number | None = None
    # in seconds, under `mean`, `p50`, `p95` and `p99`; empty if nothing was kept
    latency: dict[str, Number] = {}
    state_bytes: Count = 0  # the state of the shards that had something to do
    malformed: dict[str, Count] = {}  # how many records of each source were malformed
    # how many events were late at each operator, since the checkpoint was begun
    late: dict[str, Count] = {}
    patterns: dict[str, PatternRecord] = {}  # by operator and name
    # how many events each operator was sent by each of its inputs
    arrived: dict[str, dict[str, Count]] = {}
    plan: Count | None = None  # the number of its plan, if it was logged
    # the factor by which the shares of the plan were lowered, if it was logged
    pressure: Number | None = None
    # what the unshed sample says of the sinks of the node so far; empty: nothing new
    unshed_sample: dict[str, SampleRecord] = {}

    @property
    def offered(self) -> int:
        """How many events were relevant; where that is not known, how many were read."""
        return self.events if self.relevant_events is None else self.relevant_events

    @property
    def kept_share(self) -> float | None:
        """The share of its events that some pattern kept; None if there were none."""
        return min(1.0, self.kept / self.events) if self.events else None

    @property
    def shed(self) -> int:
        """How many of the offered events no pattern kept."""
        return max(0, self.offered - self.kept)


class DecisionSummary(LogModel):
    """A decision of the controller, without its plan."""

    time: Time  # when it was made, in seconds since 1970
    reason: str = ""  # why, as a sentence
    replanned: bool = False  # whether a new plan came of it
    seconds: Seconds = 0.0  # how long it took
    # the busy time of each node with a limit, as a share of the limit
    loads: dict[str, Number] = {}
    statuses: dict[str, str] = {}  # the status of each node


class DecisionRecord(DecisionSummary):
    """A decision of the controller."""

    record: Literal["decision"] = "decision"
    advice: dict[str, str] = {}  # what can be done about the status of a node
    # what share of each type each pattern keeps from now on; of many types those of which most
    # is shed
    shares: dict[str, dict[str, Number]] = {}
    # how many events of these types arrive in a second, before shedding
    rates: dict[str, dict[str, Number]] = {}
    omitted_shares: Count = 0  # how many shares are left out
    # how many complex events each sink gets in a second by the active plan
    sinks: dict[str, Number] = {}
    # what goes over each link of limited capacity, as a share of that
    links: dict[str, Number] = {}
    # what one more busy millisecond per second of a node would bring, or one more kilobyte per
    # second of a link, by the plan that was made now; empty: none was
    prices: dict[str, Number] = {}
    # for which share of keys each watcher is on by the plan that was made now, 1 or 0 without a
    # key; empty: none was
    watchers: dict[str, Number] = {}


class OverrideRecord(LogModel):
    """What became of an override of bounds or weights."""

    record: Literal["override"] = "override"
    time: Time  # when it was applied, in seconds since 1970
    bounds: dict[str, Number] = {}  # the bounds from then on, in seconds
    weights: dict[str, Number] = {}  # the weights of sinks from then on
    rejected: str = ""  # why it was not applied; empty: it was


Record = RunHeader | MicroBatchRecord | DecisionRecord | OverrideRecord

_RECORD_TYPES = frozenset({"run", "micro_batch", "decision", "override"})
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="record")])


def run_header(
    application: Application, time: float, *, version: str = "", timed: bool = True
) -> RunHeader:
    """Make the record that the log of a run begins with; the time is now, since 1970."""
    sinks = {name: sink for name, sink in application.sinks.items() if not sink.timed_out}
    return RunHeader(
        time=time,
        application=application.name,
        version=version,
        timed=timed,
        bounds={name: node.bound for name, node in application.nodes.items()},
        percentiles={
            name: node.percentile
            for name, node in application.nodes.items()
            if node.percentile is not None
        },
        sources=list(application.sources),
        operators={
            name: OperatorRecord(
                node=spec.node,
                inputs=list(map(str, spec.inputs)),
                patterns=list(spec.patterns),
            )
            for name, spec in application.operators.items()
        },
        pattern_texts={
            f"{spec.name}.{name}": str(pattern)
            for spec in application.operators.values()
            for name, pattern in spec.patterns.items()
        },
        sinks={name: str(sink.input) for name, sink in sinks.items()},
        weights={name: sink.weight for name, sink in sinks.items()},
        closures={
            str(stream): ClosureRecord(
                watches=list(map(str, closure.watched)),
                members=list(map(str, closure.upstream)),
                key=key_name(application.pattern(stream).partition_by) * closure.by_key,
            )
            for stream, closure in find_closures(application).by_watcher.items()
        },
    )


def sample_record(estimate: SinkEstimate) -> SampleRecord:
    """Write down what the unshed sample says of a sink."""
    nothing = (None, None, None)
    recall, recall_low, recall_high = astuple(estimate.recall) if estimate.recall else nothing
    rate, rate_low, rate_high = astuple(estimate.rate) if estimate.rate else nothing
    return SampleRecord(
        keys=estimate.keys,
        recall=recall,
        recall_low=recall_low,
        recall_high=recall_high,
        rate=rate,
        rate_low=rate_low,
        rate_high=rate_high,
        unknown=estimate.unknown,
        heavy_hitters=estimate.heavy_hitters,
        heavy_work=estimate.heavy_work,
        heavy_results=estimate.heavy_results,
    )


def parse_record(line: bytes | str) -> Record | None:
    """Read a line of a log; None if it is a record that is not known here.

    Raises:
        LogFormatError: It is a record of another format.
        ValueError: It is no record.

    Example:
        >>> parse_record('{"record":"decision","time":5,"reason":"the load fits"}').reason
        'the load fits'
    """
    record: Record | None
    try:
        record = _RECORD.validate_json(line)
    except ValidationError:
        record = _parse_leniently(line)
    if isinstance(record, RunHeader) and record.format != LOG_FORMAT:
        raise LogFormatError(f"a record of log format {record.format}")
    return record


def _parse_leniently(line: bytes | str) -> Record | None:
    """Read a line of which not all is well-formed: what is malformed is taken as missing."""
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    try:
        row = json.loads(text)
        row = json.loads(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if isinstance(row, dict) and "record" not in row and "kind" in row:
        raise LogFormatError("a record of log format 1")
    if not isinstance(row, dict) or not isinstance(row.get("record"), str):
        raise ValueError("a log record must be an object that names its record type")  # noqa: TRY004
    if row["record"] not in _RECORD_TYPES:
        return None
    try:
        return _RECORD.validate_json(json.dumps(row))
    except ValidationError as error:
        for problem in reversed(error.errors(include_url=False, include_input=False)):
            _drop(row, problem["loc"][1:])
    return _RECORD.validate_json(json.dumps(row))


def _drop(value: Any, path: tuple[int | str, ...]) -> None:  # noqa: ANN401  # it is any JSON
    """Delete what is at the end of a path through objects and lists, unless it is missing."""
    for key in path[:-1]:
        value = value[key]
    if isinstance(path[-1], int) or path[-1] in value:
        del value[path[-1]]
