"""The demo: more payments than can be matched here, on Spark, with three ways to deal with it.

    python examples/overload/demo.py

The same payments come at the same pace, three times what the engine can match here, which is
measured first: to an engine that sheds nothing, to one whose nodes shed for themselves, and to
one that sheds for the sinks of the whole graph. Then all payments are matched without shedding
and without hurry, to say which results were lost. It ends with two tables and a picture.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from compare import OVERLOAD
from feed import Feed, payments, write
from picture import WAYS, draw
from recall import compare_sinks, unshed_results

from shedlight.cli.run_view import LiveView
from shedlight.cli.serve import open_server, page_address
from shedlight.engines.simulator.recall import Recall
from shedlight.engines.spark.control.loop import micro_batch_settings
from shedlight.engines.spark.run.streaming import Live, Options, RunListener
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.graph import Application, load_application
from shedlight.text_table import align_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shedlight.engines.spark.control.micro_batch import MicroBatchReport

HERE = Path(__file__).parent
NODE, CORE = "edge", "core"
WARM, AFTER = 60.0, 4.0
"""Seconds to wait for micro-batches, and after the last payment."""
FIRST, TIMED, LONG = 30_000, 20_000, 1.0
"""Payments before some are timed, how many are timed at first, and seconds that are enough."""


@dataclass(slots=True)
class Outcome:
    """What came of one way: latencies over time, and what was kept.

    `begun` and `ended` are of the last micro-batch; `waiting` is the time at the end and how
    long what is not matched by then has waited, on average and at least.
    """

    points: list[tuple[float, float]] = field(default_factory=list)
    events: int = 0
    kept: int = 0
    begun: float = 0.0
    ended: float = 0.0
    waiting: tuple[float, float] | None = None

    def take(self, batch: "MicroBatchReport", began: float) -> None:
        """Take a micro-batch in."""
        if batch.node == NODE:
            self.begun, self.ended = max(batch.start - began, 0.0), batch.end - began
            self.events += batch.events
            self.kept += batch.kept
        if batch.node == NODE and batch.kept:
            number = sum(one.number for one in batch.kept_arrivals.values())
            mean = sum(one.number * one.mean for one in batch.kept_arrivals.values()) / number
            self.points.append((batch.end - began, batch.end - mean / 1e6))

    def close(self, now: float, fed: int) -> None:
        """Count what was fed and is not matched: it came after the last micro-batch had begun.

        The one that is being run has read what came until the last one ended; if none ended,
        what came until now.
        """
        if self.events < fed:
            self.waiting = now, now - (self.begun + (self.ended or now)) / 2

    def latencies(self) -> list[float]:
        """Give the mean latencies of micro-batches, and of the one that is not done."""
        waiting = [] if self.waiting is None else [self.waiting]
        return [latency for _, latency in [*self.points, *waiting]]


def main() -> int:
    """Run all, and show what came of it."""
    parser = argparse.ArgumentParser(
        description="Overload on Spark, with and without Shedlight."
    )
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to feed each")
    parser.add_argument("--output", type=Path, default=Path("results/demo.png"))
    asked = parser.parse_args()
    application = load_application(HERE / "app.yaml").application
    bound = application.nodes[NODE].bound or 0.0
    with tempfile.TemporaryDirectory(prefix="shedlight-demo-") as name:
        folder = Path(name)
        print("starting Spark ...", flush=True)
        session = open_session("shedlight demo")
        try:
            print("measuring what it can match here, without shedding ...", flush=True)
            able = _measure(session, application, folder / "measured")
            rate = OVERLOAD * able
            print(
                f"  {able:,.0f} payments/s; fed are {rate:,.0f}/s, and node {NODE} has a bound "
                f"of {bound:g} s"
            )
            outcomes = {
                way: _run(session, application, way, (rate, asked.seconds), folder / way)
                for way in WAYS
            }
        finally:
            close_session(session)  # before its folders go: tasks that end late still write
        print("\nmatching all payments without shedding, to compare results ...", flush=True)
        unshed = unshed_results(application, folder / "none" / "data")
        recalls = {way: compare_sinks(application, folder / way, unshed) for way in WAYS}
    _print_latencies(outcomes, bound)
    _print_results(recalls)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    draw(outcomes, recalls, bound, asked.output)
    print(f"picture: {asked.output}")
    print("next: docs/tutorial.md starts from an empty folder and ends with a pattern of yours")
    return 0


def _place(application: Application, folder: Path) -> tuple[Application, Path]:
    """Give an application its folders, and say where payments go."""
    data = folder / "data"
    data.mkdir(parents=True)
    sources = {n: replace(s, path=str(data)) for n, s in application.sources.items()}
    sinks = {n: replace(s, path=str(folder / n)) for n, s in application.sinks.items()}
    return replace(application, sources=sources, sinks=sinks), data


def _measure(session: "SparkSession", application: Application, folder: Path) -> float:
    """Measure how many payments a second are matched if nothing is shed."""
    placed, data = _place(application, folder)
    batches: list[MicroBatchReport] = []

    def until(done: Callable[[], bool]) -> None:
        over = time.monotonic() + WARM
        while not done():
            running.wait(0.1)
            if time.monotonic() > over:
                raise SystemExit(f"nothing within {WARM:g} s; `shedlight doctor` may know why")

    def read() -> int:
        return sum(batch.events for batch in batches if batch.node == NODE)

    running = Live(
        placed,
        session,
        checkpoint=str(folder / "state"),
        options=_options("none"),
        listener=RunListener(batches.append, lambda _: None),
    )
    with running:
        until(lambda: {NODE, CORE} <= {batch.node for batch in batches})
        first, end = 0, FIRST
        while True:
            write(payments(Feed(rate=20_000.0), first, end), data / f"{first:012}.parquet")
            until(lambda: read() >= end)  # noqa: B023  # called at once
            seconds = [
                batch.seconds for batch in batches if batch.node == NODE and batch.events
            ]
            if first and seconds[-1] >= LONG:
                return (end - first) / seconds[-1]
            first, end = end, end + TIMED * 4 ** (len(seconds) - 1)


def _run(
    session: "SparkSession",
    application: Application,
    way: str,
    load: tuple[float, float],
    folder: Path,
) -> Outcome:
    """Run one way, and print its latencies."""
    rate, seconds = load
    placed, data = _place(application, folder)
    log = folder / "state" / "log.jsonl"
    view, outcome = LiveView(placed, log, timed=True), Outcome()
    began: list[float] = []

    def on_batch(batch: "MicroBatchReport") -> None:
        view.batch(batch)
        if began:
            outcome.take(batch, began[0])

    view.running = running = Live(
        placed,
        session,
        checkpoint=str(folder / "state"),
        options=_options(way),
        listener=RunListener(on_batch, lambda _: None),
    )
    print(f"\n{way}: {WAYS[way]}")
    with _serving(log, folder / "state"), running:
        _until_warm(running, view)
        began.append(time.time())
        feed = [sys.executable, str(HERE / "feed.py"), str(data)]
        feed += ["--rate", str(rate), "--duration", str(seconds)]
        feeding = subprocess.Popen(feed, stdout=subprocess.DEVNULL)  # noqa: S603  # our own
        shown = 0
        while time.time() - began[0] < seconds + AFTER:
            running.wait(0.5)
            for at, latency in outcome.points[shown:]:
                print(f"  at {at:4.0f} s: mean latency {latency:5.1f} s", flush=True)
            shown = len(outcome.points)
        feeding.wait()
        _close(outcome, data, time.time() - began[0])
    return outcome


def _close(outcome: Outcome, data: Path, now: float) -> None:
    """Print what is left at the end."""
    fed = sum(pq.read_metadata(file).num_rows for file in data.glob("*.parquet"))
    outcome.close(now, fed)
    if outcome.waiting is not None:
        at, waited = outcome.waiting
        print(f"  at {at:4.0f} s: {fed - outcome.events:,} wait, for {waited:.1f} s by now")


def _options(way: str) -> Options:
    if way == "none":
        return Options(shares={})
    settings = micro_batch_settings()
    return Options(
        settings=replace(
            settings, plan_settings=replace(settings.plan_settings, local=way == "local")
        )
    )


@contextmanager
def _serving(log: Path, checkpoint: Path) -> Iterator[None]:
    server = open_server(log, checkpoint, page_address(port=0))
    with server.in_background():
        print(f"  web UI: {server.link}")
        yield


def _until_warm(running: Live, view: LiveView) -> None:
    """Wait until all nodes have run a micro-batch."""
    over = time.monotonic() + WARM
    while time.monotonic() < over:
        if all(node.batches for node in view.totals.nodes.values()):
            return
        running.wait(0.2)
    raise SystemExit(f"no micro-batch within {WARM:g} s; `shedlight doctor` may know why")


def _print_latencies(outcomes: Mapping[str, Outcome], bound: float) -> None:
    print(f"\n{'':<8}{'latency at the end':>20}{'in the bound':>14}{'kept':>7}")
    for way, one in outcomes.items():
        latencies = one.latencies()
        share = inside(latencies, bound)
        more = "" if one.waiting is None else "> "
        last = f"{more}{latencies[-1]:.1f} s" if latencies else "none came out"
        kept = f"{one.kept / one.events:.0%}" if one.events else ""
        print(f"{way:<8}{last:>20}{share:>14.0%}{kept:>7}")


def _print_results(recalls: Mapping[str, Mapping[str, Recall]]) -> None:
    print("\nresults in the same time, of all that there are without shedding; half: with half")
    print("of what they are made of in common")
    header = ("", "sink", "results", "of all", "recall", "precision")
    rows: list[tuple[str, ...]] = [(*header, "recall (half)", "precision (half)")]
    for way, sinks in recalls.items():
        for name, one in sinks.items():
            shares = (
                one.results / one.unshed if one.unshed else None,
                *(one.recall, one.precision, one.recall_by_overlap, one.precision_by_overlap),
            )
            texts = ["-" if share is None else f"{share:.0%}" for share in shares]
            rows.append((way, name, f"{one.results:,}", *texts))
    print("\n".join(align_columns(rows, left=2)))


def inside(latencies: Sequence[float], bound: float) -> float:
    """Say which part of the micro-batches is within the bound on average."""
    return sum(one <= bound for one in latencies) / len(latencies) if latencies else 0.0


if __name__ == "__main__":
    sys.exit(main())
