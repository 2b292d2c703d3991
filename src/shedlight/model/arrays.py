"""Array types of the model, and arrays that share memory: those of a plan are long."""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_ONE_THREAD = 10_000  # numbers: more are added up by several threads of BLAS
_REPEATED = (0,)  # the strides of one number over and over
_Number = TypeVar("_Number", bound=np.generic)
_Key = TypeVar("_Key")


class CachedArrays(dict[_Key, Floats]):
    """Arrays computed when they are first asked for."""

    def __init__(self, compute: Callable[[_Key], Floats]) -> None:
        self._compute = compute

    def __missing__(self, key: _Key) -> Floats:
        array = self[key] = self._compute(key)
        return array


class LazyArrays(Mapping[_Key, Floats]):
    """Arrays computed when they are asked for: those of a thousand patterns are large."""

    def __init__(self, keys: Collection[_Key], compute: Callable[[_Key], Floats]) -> None:
        self._keys, self._compute = keys, compute

    def __getitem__(self, key: _Key) -> Floats:
        return self._compute(key)

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def repeat_value(number: _Number, times: int) -> npt.NDArray[_Number]:
    """Give an array of one number over and over, in the memory of one; it cannot be changed."""
    return np.ndarray((times,), number.dtype, number, strides=(0,))


@lru_cache(maxsize=1 << 10)
def repeat_zero(times: int) -> Floats:
    """Give an array of 0 over and over; all such arrays share it, and it cannot be changed."""
    return repeat_value(np.float64(0.0), times)


def is_nothing(numbers: Floats) -> bool:
    """Whether it is 0 over and over, in the memory of one."""
    return numbers.strides == _REPEATED and not (len(numbers) and numbers.item(0))


def index_range(number: int) -> Ints:
    """Give 0, 1, 2 and so on, in memory that all such arrays share; it cannot be changed."""
    return _numbers(number.bit_length())[:number]


@cache
def _numbers(bits: int) -> Ints:
    numbers = np.arange(1 << bits)
    numbers.flags.writeable = False
    return numbers


def of_uses(values: Floats, uses: Ints) -> Floats:
    """Give the values of some types, which ascend; it cannot be changed.

    Of all types it is the array itself: to look each up takes three times as long as to read.
    """
    chosen = values.view() if len(uses) == len(values) else values[uses]
    chosen.flags.writeable = False
    return chosen


def dot(left: Floats, right: Floats) -> float:
    """Add up products, in this thread alone: arrays are long, but other work goes on.

    The right one may be one number over and over, for which BLAS would be slow.
    """
    if right.strides == _REPEATED and len(right):
        return float(np.add.reduce(left)) * float(right[0])
    if len(left) <= _ONE_THREAD:
        return float(left.dot(right))
    return float(np.einsum("i,i->", left, right))
