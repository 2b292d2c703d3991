r"""Functions and casts on columns of text.

Text is a sequence of characters (Unicode code points); it is ordered by its bytes in UTF-8.
`lower` and `upper` are the full mappings of Unicode, so that a text may get longer; of letters
newer than Unicode 14, this Python may know less than Spark. What has no vectorised form is
computed once for each distinct value.

The numbers that a text
may be cast to are written so, with blanks (space, \t, \n, \v, \f, \r) around them:

    bigint  [+-]? digits
    double  [+-]? (digits [. digits?] | . digits) ([eE] [+-]? digits)?
            or NaN, Infinity, -Infinity in letters of any case
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shedlight.language.ast.data_type import DataType
from shedlight.language.eval import column as col
from shedlight.language.eval.column import Column, Flags, and_flags
from shedlight.language.functions import LARGEST
from shedlight.language.regex import common_regex

BLANKS = " \t\n\v\f\r"
BIGINT_FORM = "[+-]?[0-9]+"
DOUBLE_FORM = (
    "[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?[0-9]+)?"
    "|[Nn][Aa][Nn]|-?[Ii][Nn][Ff][Ii][Nn][Ii][Tt][Yy]"
)
"""Regular expressions that mean the same to Java and to RE2."""

_INT_BOUNDS = (-(2**31), 2**31 - 1)
_FORM_TOKEN = re.compile(r"\\.|.", re.DOTALL)
_WILD: Mapping[str, str] = {"%": ".*", "_": "."}
_FAST_FORMS: Mapping[str, Callable[[pa.Array, str], pa.Array]] = {
    "": pc.equal,
    "x": pc.equal,
    "x%": pc.starts_with,
    "%x": pc.ends_with,
    "%x%": pc.match_substring,
}
"""How to test for forms without `_`, x being text without wildcards."""


def count_characters(text: Column) -> Column:
    """Count the characters."""
    counts = pc.utf8_length(text.values).cast(pa.int64())
    return Column(DataType.BIGINT, np.asarray(counts.fill_null(0)), text.valid)


def map_distinct(change: Callable[[str], str], text: Column) -> Column:
    """Change each distinct text."""
    encoded = pc.dictionary_encode(text.values)
    changed = pa.array([change(value) for value in encoded.dictionary.to_pylist()], col.TEXT)
    return Column(DataType.STRING, changed.take(encoded.indices), text.valid)


def trim(text: Column) -> Column:
    """Drop spaces, and nothing else, at both ends."""
    return Column(DataType.STRING, pc.utf8_trim(text.values, " "), text.valid)


def concat(texts: Sequence[Column]) -> Column:
    """Write texts one after the other."""
    valid = texts[0].valid
    for text in texts[1:]:
        valid = and_flags(valid, text.valid)
    parts = col.to_scalars(*(text.values for text in texts))
    values = pc.binary_join_element_wise(*parts, pa.scalar("", col.TEXT))
    return Column(DataType.STRING, values, valid)


def substring(text: Column, start: Column, count: Column) -> Column:
    """Cut out `count` characters from `start` on, which is 1 for the first, -1 for the last.

    As in Spark, 0 is the first too, and what lies before the first character counts. Null
    where a number does not fit 32 bits.
    """
    least, most = _INT_BOUNDS
    valid = and_flags(text.valid, and_flags(start.valid, count.valid))
    for number in (start, count):
        valid = and_flags(valid, (number.values >= least) & (number.values <= most))
    if len(start.values) == len(count.values) == 1:
        values = _sliced(text.values, *np.clip([start.values[0], count.values[0]], least, most))
    else:
        parts = (text.values, pa.array(start.values), pa.array(count.values))
        values = per_distinct(_cut, col.TEXT, parts)
    return Column(DataType.STRING, values, valid)


def contains_part(
    fast: Callable[..., pa.Array], slow: Callable[[str, str], bool], text: Column, part: Column
) -> Column:
    """Tell where a text has a part: `fast` finds one part, `slow` is for a part per row."""
    if len(part.values) == 1:
        flags = fast(text.values, pattern=part.values[0].as_py() or "")
    else:
        flags = per_distinct(slow, pa.bool_(), (text.values, part.values))
    return Column(DataType.BOOLEAN, col.to_flags(flags), and_flags(text.valid, part.valid))


def is_like(text: Column, form: str) -> Flags:
    """Tell where a text has a form, whatever its validity.

    (Arrow's `match_like` takes the second backslash of a form that ends in two for a lone one.)
    """
    tokens = _FORM_TOKEN.findall(form)
    plain = "".join(token[-1] for token in tokens if token not in _WILD)
    shape = "".join(token if token in _WILD else "x" for token in tokens)
    fast = _FAST_FORMS.get(re.sub("x+", "x", shape))
    if fast:
        return col.to_flags(fast(text.values, plain))
    pattern = "".join(_WILD.get(token) or re.escape(token[-1]) for token in tokens)
    return col.to_flags(pc.match_substring_regex(text.values, rf"(?s)\A{pattern}\z"))


def is_matched(text: Column, pattern: Column) -> Column:
    """Tell where a text has a part that a regular expression describes."""
    regex = common_regex(pattern.values[0].as_py())
    flags = col.to_flags(pc.match_substring_regex(text.values, f"(?s){regex}"))
    return Column(DataType.BOOLEAN, flags, text.valid)


def to_bigint(text: Column) -> Column:
    """Read whole numbers; null where there is none, or one that does not fit 64 bits."""
    numeral = _numerals(text.values, BIGINT_FORM)
    negative = np.asarray(pc.starts_with(numeral, "-"))
    digits = pc.utf8_ltrim(pc.utf8_ltrim(numeral, "+-"), "0")
    width = pc.binary_length(digits)
    readable = pc.and_(pc.greater(width, 0), pc.less_equal(width, len(str(LARGEST))))
    magnitude = np.asarray(pc.if_else(readable, digits, "0").cast(pa.uint64()))
    fits = np.asarray(width) <= len(str(LARGEST))
    fits &= magnitude <= np.uint64(LARGEST) + negative
    values = magnitude.astype(np.int64)  # the magnitude of the smallest wraps to itself
    return _read(DataType.BIGINT, text, numeral, np.where(negative, -values, values), fits)


def to_double(text: Column) -> Column:
    """Read numbers; null where there is none."""
    numeral = _numerals(text.values, DOUBLE_FORM)
    shown = pc.if_else(pc.equal(numeral, ""), "0", numeral)
    values = np.asarray(shown.cast(pa.float64()))
    return _read(DataType.DOUBLE, text, numeral, values, col.ALL_TRUE)


def to_text(number: Column) -> Column:
    """Write bigints in decimal."""
    return Column(DataType.STRING, pa.array(number.values).cast(col.TEXT), number.valid)


def _numerals(values: pa.Array, form: str) -> pa.Array:
    """Drop the blanks around numbers that have a form; empty where a text has not."""
    bare = pc.utf8_trim(values, BLANKS).fill_null("")
    return pc.if_else(pc.match_substring_regex(bare, rf"\A(?:{form})\z"), bare, "")


def _read(
    data_type: DataType, text: Column, numeral: pa.Array, values: npt.NDArray[Any], fits: Flags
) -> Column:
    is_number = np.asarray(pc.not_equal(numeral, ""))
    return Column(data_type, values, and_flags(text.valid, and_flags(is_number, fits)))


def _cut(text: str, start: int, count: int) -> str:
    first = start - 1 if start > 0 else (len(text) + start if start < 0 else 0)
    return text[max(first, 0) : max(first + count, 0)]


def _sliced(values: pa.Array, start: int, count: int) -> pa.Array:
    """Cut out the same stretch of all texts; bounds as `_cut` has them."""
    if count <= 0:
        return pc.utf8_slice_codeunits(values, 0, 0)
    first = start - 1 if start > 0 else start
    end = first + count
    return pc.utf8_slice_codeunits(values, first, None if first < 0 <= end else end)


def per_distinct(
    function: Callable[..., Any], result: pa.DataType, arrays: Sequence[pa.Array]
) -> pa.Array:
    """Apply a function to each distinct combination of values; a null gives null."""
    rows = max(map(len, arrays)) if min(map(len, arrays)) else 0
    filled = [array if len(array) == rows else pa.repeat(array[0], rows) for array in arrays]
    key = np.zeros(rows, np.int64)
    for array in filled:
        codes = array.dictionary_encode(null_encoding="encode")
        key = key * len(codes.dictionary) + np.asarray(codes.indices)
        distinct = pa.array(key).dictionary_encode()
        key = np.asarray(distinct.indices, np.int64)  # small again: no product overflows
    sample_rows = np.zeros(int(key.max(initial=-1)) + 1, np.int64)
    sample_rows[key] = np.arange(rows)
    columns = (array.take(pa.array(sample_rows)).to_pylist() for array in filled)
    samples = zip(*columns, strict=True)
    results = [None if None in sample else function(*sample) for sample in samples]
    return pa.array(results, result).take(pa.array(key))
