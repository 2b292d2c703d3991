"""Feeds payments into a folder in real time: a Parquet file each half second, at a steady rate.

Payment k depends on the seed and on k alone. Its time is when it happens, in microseconds from
the start of the stream; it can be read as soon as its file is there, which is when the last
payment of the file has happened.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

TYPES = ("deposit", "withdrawal", "transfer")
SHARES = (0.28, 0.36, 0.36)
LARGEST = np.array([1_000.0, 1_000.0, 900.0])
"""The largest amount of each type: a transfer is nine tenths of a deposit."""

FOLDER = Path(__file__).with_name("data") / "payments"


def _check_shares(shares: tuple[float, ...]) -> None:
    if len(shares) != len(TYPES) or min(shares) < 0 or not math.isclose(sum(shares), 1):
        raise ValueError(f"shares must be {len(TYPES)} numbers that add up to 1, got {shares}")


@dataclass(frozen=True, slots=True)
class Step:
    """A change for good.

    Attributes:
        at: When, in seconds from the start of the stream.
        factor: How many times as many payments there are from then on.
        shares: The share of each type from then on.
    """

    at: float = math.inf
    factor: float = 1.0
    shares: tuple[float, ...] = SHARES

    def __post_init__(self) -> None:
        if not (self.at >= 0 and self.factor > 0):
            raise ValueError(
                f"a step is at 0 s or later and its factor positive, "
                f"got {self.at} s and {self.factor}"
            )
        _check_shares(self.shares)


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream of payments.

    Attributes:
        rate: Payments per second.
        seed: The same one gives the same payments.
        shares: The share of each type.
        step: How the stream changes.
    """

    rate: float
    seed: int = 1
    shares: tuple[float, ...] = SHARES
    step: Step = Step()

    def __post_init__(self) -> None:
        if not self.rate > 0:
            raise ValueError(f"rate must be positive, got {self.rate}")
        _check_shares(self.shares)

    def number_at(self, seconds: float) -> int:
        """Say how many payments have happened before this moment."""
        before = min(seconds, self.step.at)
        after = (seconds - before) * self.step.factor
        return math.ceil(round((before + after) * self.rate, 6))


def payments(feed: Feed, first: int, end: int) -> pa.Table:
    """Make the payments from number `first` up to `end`, which is not among them."""
    number = np.arange(first, end, dtype=np.int64)
    moment = _moments(feed, number)
    chance = _uniform(feed.seed, 2 * number)
    types = np.where(
        moment < feed.step.at,
        np.searchsorted(np.cumsum(feed.shares[:-1]), chance, side="right"),
        np.searchsorted(np.cumsum(feed.step.shares[:-1]), chance, side="right"),
    )
    amount = LARGEST[types] * _uniform(feed.seed, 2 * number + 1)
    names = pa.DictionaryArray.from_arrays(types.astype(np.int8), TYPES)
    return pa.table(
        {
            "number": number,
            "time_us": np.round(moment * 1e6).astype(np.int64),
            "kind": names.cast(pa.string()),
            "amount": amount.round(2),
        }
    )


def _moments(feed: Feed, number: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Say when payments happen, in seconds from the start of the stream."""
    moment = number / feed.rate
    after = np.maximum(moment - feed.step.at, 0.0) / feed.step.factor
    return np.minimum(moment, feed.step.at) + after


def _uniform(seed: int, number: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Draw the number-th values of a stream, 0 to 1: splitmix64, any of them at once."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    start = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    bits = start + (number.astype(np.uint64) + np.uint64(1)) * golden
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    drawn: npt.NDArray[np.float64] = (bits >> np.uint64(11)) * 2.0**-53
    return drawn


@dataclass(frozen=True, slots=True)
class Written:
    """A file that has appeared.

    Attributes:
        path: Where.
        count: How many payments are in it.
        lag: How many seconds after its last payment it appeared.
    """

    path: Path
    count: int
    lag: float


def write(table: pa.Table, path: Path) -> None:
    """Write a file that is complete when it appears under its name."""
    hidden = path.with_name(f".{path.name}.tmp")
    pa.parquet.write_table(table, hidden)
    hidden.replace(path)


def run(  # noqa: PLR0913  # the clock is an argument, too
    feed: Feed,
    folder: Path,
    duration: float,
    *,
    begin: float = 0.0,
    every: float = 0.5,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Written]:
    """Write the payments as they happen, and tell of each file.

    Args:
        feed: The stream.
        folder: Where files appear; it is made if it is not there.
        duration: For how many seconds.
        begin: The second of the stream to begin at.
        every: Seconds from one file to the next.
        clock: Says how late it is, in seconds.
        sleep: Waits for some seconds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    start = clock()
    for i in range(math.ceil(round(duration / every, 6))):
        until = min((i + 1) * every, duration)
        first, end = feed.number_at(begin + i * every), feed.number_at(begin + until)
        table = payments(feed, first, end)
        sleep(max(0.0, start + until - clock()))
        path = folder / f"payments-{first:012}.parquet"
        write(table, path)
        yield Written(path, len(table), clock() - start - until)


def main() -> None:
    """Read the options, feed, and say how it went."""
    parser = _options()
    given = parser.parse_args()
    try:
        step = Step(given.step_at, given.step_factor, given.step_shares or given.shares)
        feed = Feed(given.rate, given.seed, given.shares, step)
    except ValueError as error:
        parser.error(str(error))
    print(f"feeding {given.folder}: {feed.rate:,.0f} payments/s for {given.duration:g} s")
    count, lag = 0, 0.0
    for file in run(feed, given.folder, given.duration, begin=given.begin, every=given.every):
        count, lag = count + file.count, max(lag, file.lag)
    rate = count / given.duration
    print(f"{count:,} payments, {rate:,.0f}/s; files at most {lag:.2f} s late")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Feed payments into a folder in real time, as Parquet files.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("folder", type=Path, nargs="?", default=FOLDER, help="where files appear")
    add("--rate", type=_positive, default=20_000.0, help="payments per second")
    add("--duration", type=_positive, default=60.0, help="seconds to feed for")
    add("--begin", type=float, default=0.0, help="second of the stream to go on from")
    add("--every", type=_positive, default=0.5, help="seconds from one file to the next")
    add("--seed", type=int, default=1, help="the same one gives the same payments")
    add("--shares", type=_shares, default=SHARES, help=f"of {', '.join(TYPES)}: A,B,C")
    add("--step-at", type=float, default=math.inf, help="second at which the stream changes")
    add("--step-factor", type=_positive, default=1.0, help="times the rate from then on")
    add("--step-shares", type=_shares, help="shares from then on; as before if not given")
    return parser


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"must be more than 0, got {text}")
    return number


def _shares(text: str) -> tuple[float, ...]:
    return tuple(float(part) for part in text.split(","))


if __name__ == "__main__":
    main()
