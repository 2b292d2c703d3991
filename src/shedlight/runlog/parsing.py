"""From a line of a log to a record.

A log is read long after it was written, by another version, or while it is being written: what
is missing in a record has a default, what is no number where one must be is taken as missing,
and only a record without its time, or a micro-batch without its node, is none.
"""

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from shedlight.graph import Application
from shedlight.runlog.records import (
    DecisionRecord,
    MicroBatchRecord,
    OperatorRecord,
    OverrideRecord,
    PatternRecord,
    Record,
    RunHeader,
    run_row,
)

_YEAR_9999 = 253_370_764_800
_MOST = 1e15  # what is more was not measured
_NOTHING: Mapping[str, Any] = MappingProxyType({})


def header_of(application: Application, time: float = 0.0) -> RunHeader:
    """Make the header of a run whose log has none."""
    return _header(run_row(application, time), time)


def record_of(line: str) -> Record | None:
    """Read a line of a log; None if it is of a kind that is not known here.

    Raises:
        ValueError: It is no record.

    Example:
        >>> record_of('{"kind":"decision","time":5,"reason":"all is well"}').reason
        'all is well'
    """
    try:
        row = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(row, dict) or not isinstance(row.get("kind"), str):
        raise ValueError("a record must be an object with a kind")  # noqa: TRY004
    make = _MAKERS.get(row["kind"])
    if make is None:
        return None
    time = _number(row.get("time"))
    if time is None or not 0 <= time < _YEAR_9999:
        raise ValueError("a record must have a time")
    return make(row, time)


def _header(row: Mapping[str, Any], time: float) -> RunHeader:
    operators = {n: _mapping(one) for n, one in _mapping(row.get("operators")).items()}
    nodes = _mapping(row.get("nodes"))
    return RunHeader(
        time=time,
        application=_text(row.get("application")),
        version=_text(row.get("version")),
        timed=row.get("timed") is not False,
        bounds={name: _number(_mapping(one).get("bound")) for name, one in nodes.items()},
        sources=_list(row.get("sources")),
        operators={
            name: OperatorRecord(
                _text(one.get("node")), _list(one.get("inputs")), _list(one.get("patterns"))
            )
            for name, one in operators.items()
        },
        sinks=_texts(row.get("sinks")),
        weights=_numbers(row.get("weights")),
    )


def _batch(row: Mapping[str, Any], time: float) -> MicroBatchRecord:
    if not isinstance(row.get("node"), str):
        raise ValueError("a micro-batch must have a node")  # noqa: TRY004
    return MicroBatchRecord(
        time=time,
        node=row["node"],
        number=_count(row.get("number")),
        seconds=max(0.0, _number(row.get("seconds")) or 0.0),
        events=_count(row.get("events")),
        kept=_count(row.get("kept")),
        relevant_events=None
        if _number(row.get("relevant_events")) is None
        else _count(row["relevant_events"]),
        lag=_number(row.get("lag")),
        latency=_numbers(row.get("latency")),
        state=_count(row.get("state")),
        refused=_counts(row.get("refused")),
        late=_counts(row.get("late")),
        patterns={name: _pattern(one) for name, one in _mapping(row.get("patterns")).items()},
        arrived={name: _counts(one) for name, one in _mapping(row.get("arrived")).items()},
        plan=None if _number(row.get("plan")) is None else _count(row["plan"]),
        pressure=_number(row.get("pressure")),
    )


def _pattern(value: object) -> PatternRecord:
    row = _mapping(value)
    return PatternRecord(
        kept=_count(row.get("kept")),
        seconds=max(0.0, _number(row.get("seconds")) or 0.0),
        found=_count(row.get("found")),
        partial_matches=_count(row.get("partial_matches")),
        types=_counts(row.get("types")),
        offered=None if _number(row.get("offered")) is None else _count(row["offered"]),
    )


def _decision(row: Mapping[str, Any], time: float) -> DecisionRecord:
    return DecisionRecord(
        time=time,
        reason=_text(row.get("reason")),
        replanned=row.get("replanned") is True,
        seconds=_number(row.get("seconds")) or 0.0,
        loads=_numbers(row.get("loads")),
        states=_texts(row.get("states")),
        remedies=_texts(row.get("remedies")),
        shares={n: _numbers(one) for n, one in _mapping(row.get("shares")).items()},
        rates={n: _numbers(one) for n, one in _mapping(row.get("rates")).items()},
        more=_count(row.get("more")),
        sinks=_numbers(row.get("sinks")),
        prices=_numbers(row.get("prices")),
    )


def _wish(row: Mapping[str, Any], time: float) -> OverrideRecord:
    return OverrideRecord(
        time=time,
        bounds=_numbers(row.get("bounds")),
        weights=_numbers(row.get("weights")),
        refused=_text(row.get("refused")),
    )


_MAKERS: Mapping[str, Callable[[Mapping[str, Any], float], Record]] = MappingProxyType(
    {"run": _header, "batch": _batch, "decision": _decision, "wish": _wish}
)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else _NOTHING


def _list(value: object) -> tuple[str, ...]:
    return tuple(map(_text, value)) if isinstance(value, list) else ()


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if abs(number) <= _MOST else None  # not what is no number, either


def _count(value: object) -> int:
    return max(0, int(_number(value) or 0.0))


def _texts(value: object) -> dict[str, str]:
    return {name: one for name, one in _mapping(value).items() if isinstance(one, str)}


def _numbers(value: object) -> dict[str, float]:
    found = {name: _number(one) for name, one in _mapping(value).items()}
    return {name: one for name, one in found.items() if one is not None}


def _counts(value: object) -> dict[str, int]:
    return {name: _count(one) for name, one in _mapping(value).items()}
