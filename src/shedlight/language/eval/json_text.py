"""Values in JSON text, as Spark's `get_json_object` finds and writes them."""

import json
import math
from decimal import Decimal
from functools import partial
from typing import Any

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval import column as col
from shedlight.language.eval.column import Column
from shedlight.language.eval.texts import per_distinct
from shedlight.language.json_path import parse_json_path

_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7  # the doubles that Java writes without an exponent


def find_in_json(text: Column, path: Column) -> Column:
    """Find what is at a path in each text; null where there is nothing, or no JSON."""
    steps = parse_json_path(path.values[0].as_py())
    values = per_distinct(partial(_find, steps), col.TEXT, (text.values,))
    valid = col.and_flags(text.valid, col.to_flags(values.is_valid()))
    return Column(DataType.STRING, values, valid)


def _find(steps: tuple[str | int, ...], text: str) -> str | None:
    try:
        value, _ = _DECODER.raw_decode(text.lstrip(" \t\n\r"))  # what follows it is ignored
    except (ValueError, RecursionError):
        return None
    for step in steps:
        if isinstance(step, int):
            if not isinstance(value, list) or step >= len(value):
                return None
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[step]
        else:
            return None
    if value is None:
        return None
    return value if isinstance(value, str) else _write(value)


def _first_of_name(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs)) if len(dict(pairs)) < len(pairs) else dict(pairs)


def _no_number(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_first_of_name, parse_constant=_no_number)


def _write(value: object) -> str:
    """Write a value as JSON without blanks, numbers as Java does."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{_write(k)}:{_write(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_write, value)) + "]"
    if isinstance(value, float):
        return _write_double(value)
    return json.dumps(value, ensure_ascii=False)


def _write_double(value: float) -> str:
    if not math.isfinite(value):
        return f'"{"-" * (value < 0)}Infinity"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    _, numerals, power = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, numerals))
    exponent = len(digits) - 1 + int(power)
    return f"{'-' * (value < 0)}{digits[0]}.{digits[1:] or '0'}E{exponent}"
