"""What the settings of an application file take: text turned into numbers, times and lists."""

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar
from zoneinfo import available_timezones

from pydantic import BeforeValidator, WithJsonSchema

from shedlight.errors import guess, join_words, known_names
from shedlight.graph.application import EXAMPLE_ZONE, PERCENTILES, ShedBy, TimeUnit
from shedlight.graph.file.problem import shorten
from shedlight.graph.kafka import KAFKA, VALUE_FORMATS
from shedlight.graph.run_settings import OnStart
from shedlight.language.ast.data_type import (
    PLAIN_SCHEMA_NAMES,
    SCHEMA_TYPE_NAMES,
    DataType,
    Schema,
)
from shedlight.language.ast.window import read_duration

AUTO = "auto"  # as many shards as cores
_NAME = r"^[A-Za-z0-9_][A-Za-z0-9_-]*$"
_LONGEST_NAME = 100
_ARROW = "->"
_DATA_RATE = re.compile(r"([0-9]+(?:\.[0-9]*)?)\s*(B|kB|KB|MB|GB)/s")
_DATA_UNITS = {"B": 1.0, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_PREFIX = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,29}$"
_BREAKS = frozenset("()='<>")  # of a pattern that was cut in two
_SCALAR = {"type": ["string", "number", "boolean"]}
_LIST = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_TIME = {"type": "string", "examples": ["3 s", "500 ms", "10 min"]}
_BOUND = {
    "anyOf": [
        _TIME,
        {
            "type": "object",
            "patternProperties": {"^p[5-9][0-9]$": _TIME},
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
            "examples": [{"p95": "3 s"}],
        },
    ]
}
_SHARE = {"type": ["number", "string"], "minimum": 0, "maximum": 1, "examples": [0.5, "50%"]}
_SAMPLE = {
    "type": ["number", "string"],
    "minimum": 0,
    "exclusiveMaximum": 1,
    "examples": [0.01, "1%"],
}

_SHARDS = {"anyOf": [{"enum": [AUTO]}, {"type": "integer", "minimum": 1}]}
_FLAGS = {"true": True, "false": False}
_STARTS = {str(each): each for each in OnStart}
_WAYS = {str(way): way for way in ShedBy}
_PERCENTILES = {f"p{number}": number for number in PERCENTILES}
_UNITS = {str(unit): unit for unit in TimeUnit}

_T = TypeVar("_T")


def describe(value: object) -> str:
    """Say what was found where something else belongs."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(shorten(value))
    return "a list" if isinstance(value, list) else "a mapping"


def _text(value: object) -> str:
    if value is None:
        raise ValueError("is empty; within { } put a text that has commas in quotes")
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {describe(value)}")  # noqa: TRY004 - pydantic's way
    if not value.strip():
        raise ValueError("is empty; write something or leave the setting out")
    return value


def _single(value: object) -> str:
    if isinstance(value, list):
        raise ValueError("takes one pattern, got a list; write a sink for each")  # noqa: TRY004
    return _text(value)


def _name(value: object) -> str:
    name = _text(value)
    if not re.fullmatch(_NAME, name) or len(name) > _LONGEST_NAME:
        hint = f"it is made of at most {_LONGEST_NAME} letters, digits, '_' and '-'"
        if not _BREAKS.isdisjoint(name):
            hint += "; within { } put a text that has commas in quotes"
        raise ValueError(f"has {describe(name)}, which is not a name; {hint}")
    return name


def _column(value: object) -> str:
    name = _text(value)
    if "." in name or name.startswith("#"):
        hint = "it has no dot; derive it from a field as in `columns: {zone: machine.zone}`"
        raise ValueError(f"has {describe(name)}, which is not the name of a column; {hint}")
    return name


def _distinct(value: object) -> list[object]:
    """Read a list; a single text is a list of one."""
    values = value if isinstance(value, list) else [_text(value)]
    if not values:
        raise ValueError("is empty; name at least one")
    counts = Counter(name for name in values if isinstance(name, str))
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"has {describe(twice[0])} twice; leave one out")
    return values


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, str) else math.nan
    except ValueError:
        return math.nan


def _amount(value: object) -> float:
    amount = _number(value)
    if not 0 <= amount < math.inf:
        raise ValueError(f"must be a number from 0 on, got {describe(value)}")
    return amount


def _share(value: object) -> float:
    """Read a share: a number up to 1, or per cent."""
    is_percent = isinstance(value, str) and value.strip().endswith("%")
    percent = value.strip().removesuffix("%") if isinstance(value, str) else value
    share = _number(percent) / 100 if is_percent else _number(value)
    if not 0 <= share <= 1:
        raise ValueError(f"must be from 0 to 1 or from 0% to 100%, got {describe(value)}")
    return share


def _sample(value: object) -> float:
    """Read a share below 1: a sample of all would leave nothing to shed."""
    try:
        share = _share(value)
    except ValueError:
        share = math.nan
    if not 0 <= share < 1:
        hint = "write 0 for no sample, or a few per cent such as 1%"
        raise ValueError(
            f"must be from 0 to below 1 or from 0% to below 100%, got {describe(value)}; {hint}"
        )
    return share


def _choice(options: Mapping[str, _T]) -> Callable[[object], _T]:
    """Make a reader of a setting that takes one of a few words."""

    def read(value: object) -> _T:
        text = _text(value)
        if text.lower() not in options:
            close = guess(str(text), map(str, options))
            raise ValueError(f"must be {join_words(options)}, got {describe(text)}{close}")
        return options[text.lower()]

    return read


def _time(value: object) -> int:
    if not isinstance(value, str):
        raise ValueError(f"must be a time such as '3 s', got {describe(value)}")  # noqa: TRY004
    return read_duration(value)


def _positive_time(value: object) -> int:
    time = _time(value)
    if not time:
        raise ValueError(f"must be longer than zero, got {describe(value)}")
    return time


def _count(value: object) -> int:
    if not isinstance(value, str) or not value.strip().isdecimal():
        raise ValueError(f"must be a whole number from 0 on, got {describe(value)}")
    return int(value)


def read_shards(value: object) -> int | None:
    """Read a number of shards; None: as many as cores."""
    text = value.strip() if isinstance(value, str) else ""
    if text.lower() == AUTO:
        return None
    if not text.isdecimal() or not int(text):
        raise ValueError(f"must be {AUTO} or a whole number from 1 on, got {describe(value)}")
    return int(text)


def read_start(value: object) -> OnStart:
    """Read what becomes of events that were stored before a run began."""
    return _choice(_STARTS)(value)


def _bound(value: object) -> tuple[int, int | None]:
    """Read a bound: microseconds, and of which percentile; None: of the mean."""
    if not isinstance(value, dict):
        return _positive_time(value), None
    hint = "write one of p50 to p99 with a time, as in {p95: 3 s}; `bound: 3 s` is of the mean"
    if len(value) != 1:
        raise ValueError(f"has {len(value)} percentiles; {hint}")
    (name, time), *_ = value.items()
    if name not in _PERCENTILES:
        raise ValueError(f"has the unknown percentile {describe(name)}; {hint}")
    try:
        return _positive_time(time), _PERCENTILES[name]
    except ValueError as error:
        raise ValueError(f"at {name} {error}") from error


def _value_format(value: object) -> str:
    text = _text(value).lower()
    if text == "avro":
        raise ValueError(
            "is avro, which is not read; have the values written as json, or unpack them with "
            "from_avro in Python and give the DataFrame to Live"
        )
    if text not in VALUE_FORMATS:
        raise ValueError(f"must be {join_words(VALUE_FORMATS)}, got {describe(value)}")
    return text


def _channel_format(value: object) -> str:
    if _text(value).lower() != KAFKA:
        raise ValueError(f"must be {KAFKA}, got {describe(value)}")
    return KAFKA


def _prefix(value: object) -> str:
    text = _text(value)
    if not re.fullmatch(_PREFIX, text):
        raise ValueError(
            f"has {describe(text)}, with which no topic can begin; it is made of at most 30 "
            "letters, digits, '.', '_' and '-'"
        )
    return text


def _data_rate(value: object) -> float:
    """Read bytes per second."""
    match = _DATA_RATE.fullmatch(value.strip()) if isinstance(value, str) else None
    rate = float(match[1]) * _DATA_UNITS[match[2]] if match else 0.0
    if not rate:
        raise ValueError(
            f"must be bytes per second, more than none, such as '2 MB/s', got {describe(value)}"
        )
    return rate


def _edge(value: object) -> tuple[str, str]:
    """Read which node sends to which."""
    names = [name.strip() for name in _text(value).split(_ARROW)]
    if len(names) != 2:  # noqa: PLR2004  # from and to
        raise ValueError(f"has {describe(value)}; write two nodes, as in edge-2 -> core")
    return _name(names[0]), _name(names[1])


def _data_type(value: object) -> DataType | dict[str, Any]:
    """Read the data type of a column; a struct is a mapping of its fields."""
    if isinstance(value, dict) and value:
        return {_column(name): _data_type(inner) for name, inner in value.items()}
    text = value if isinstance(value, str) else ""
    name = _DECIMAL.sub("decimal", text.lower().replace(" ", ""))
    if name not in SCHEMA_TYPE_NAMES:
        known = known_names(shorten(text), [*PLAIN_SCHEMA_NAMES, "array<string>"])
        raise ValueError(f"must be a data type, got {describe(value or None)}; {known}")
    return SCHEMA_TYPE_NAMES[name]


_DECIMAL = re.compile(r"decimal\([0-9]+(?:,(?:[0-9]|1[0-8]))?\)")
"""Decimals of up to 18 digits behind the point, which all are taken alike."""


def _time_zone(value: object) -> str:
    """Read the name of a time zone."""
    if not isinstance(value, str) or value not in available_timezones():
        raise ValueError(
            f"must be a time zone, got {describe(value)}; name one such as {EXAMPLE_ZONE}"
        )
    return value


def flat_schema(declared: Mapping[str, Any], outer: str = "") -> Schema:
    """List the columns of a declared schema, and the fields of its structs."""
    data_types: dict[str, DataType] = {}
    for name, data_type in declared.items():
        is_struct = isinstance(data_type, Mapping)
        data_types[outer + name] = DataType.STRUCT if is_struct else data_type
        data_types |= flat_schema(data_type, f"{outer}{name}.") if is_struct else {}
    return data_types


def filled(value: object) -> object:
    """Take a part that has at least one entry."""
    if value == {}:
        raise ValueError("is empty; it needs at least one entry")
    return value


def or_default(value: object) -> object:
    """Take a part without settings, which YAML calls null."""
    return {} if value is None else value


def _as(
    read: Callable[[object], object], schema: Mapping[str, Any]
) -> tuple[BeforeValidator, WithJsonSchema]:
    return BeforeValidator(read), WithJsonSchema(dict(schema))


Text = Annotated[str, *_as(_text, _SCALAR)]
Single = Annotated[str, *_as(_single, {"type": "string"})]
Name = Annotated[str, *_as(_name, {"type": "string", "pattern": _NAME})]
Column = Annotated[str, *_as(_column, {"type": "string"})]
Amount = Annotated[float, *_as(_amount, {"type": "number", "minimum": 0})]
Share = Annotated[float, *_as(_share, _SHARE)]
Sample = Annotated[float, *_as(_sample, _SAMPLE)]
Flag = Annotated[bool, *_as(_choice(_FLAGS), {"type": "boolean"})]
Start = Annotated[OnStart, *_as(read_start, {"enum": list(_STARTS)})]
Way = Annotated[ShedBy, *_as(_choice(_WAYS), {"enum": list(_WAYS)})]
Time = Annotated[int, *_as(_time, _TIME)]
PositiveTime = Annotated[int, *_as(_positive_time, _TIME)]
Count = Annotated[int, *_as(_count, {"type": "integer", "minimum": 0})]
Shards = Annotated[int | None, *_as(read_shards, _SHARDS)]
Bound = Annotated[tuple[int, int | None], *_as(_bound, _BOUND)]
ValueFormat = Annotated[str, *_as(_value_format, {"enum": list(VALUE_FORMATS)})]
ChannelFormat = Annotated[str, *_as(_channel_format, {"enum": [KAFKA]})]
Prefix = Annotated[str, *_as(_prefix, {"type": "string", "pattern": _PREFIX})]
DataRate = Annotated[float, *_as(_data_rate, {"type": "string", "examples": ["2 MB/s"]})]
LinkEdge = Annotated[tuple[str, str], *_as(_edge, {"type": "string"})]
Unit = Annotated[TimeUnit, *_as(_choice(_UNITS), {"enum": list(_UNITS)})]
Zone = Annotated[str, *_as(_time_zone, {"type": "string"})]
Texts = Annotated[list[Text], *_as(_distinct, _LIST)]
ColumnNames = Annotated[list[Column], *_as(_distinct, _LIST)]
ColumnType = Annotated[
    Any, *_as(_data_type, {"anyOf": [{"enum": list(SCHEMA_TYPE_NAMES)}, {"type": "object"}]})
]
Filled = Annotated[dict[Name, _T], BeforeValidator(filled)]
