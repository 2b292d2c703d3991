"""The demo: more payments than a core can match, on Spark, with three ways to deal with it.

    python examples/overload/demo.py

The same payments come at the same pace, three times what a core can match: to an engine that
sheds nothing, to one whose nodes shed for themselves, and to one that sheds for the sinks of
the whole graph. It ends with a table and a picture, within three minutes.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from compare import OVERLOAD, capacity

from shedlight.cli.run_view import LiveView
from shedlight.cli.serve import open_server
from shedlight.engines.spark.control.loop import micro_batch_settings
from shedlight.engines.spark.run.streaming import Live, Options, RunListener
from shedlight.engines.spark.session.session import close_session, open_session
from shedlight.graph import Application, load_application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from shedlight.engines.spark.control.micro_batch import MicroBatchReport

HERE = Path(__file__).parent
NODE, CORE = "edge", "core"
WAYS = {"none": "sheds nothing", "local": "each node for itself", "global": "for the sinks"}
WARM, AFTER = 60.0, 4.0
"""Seconds to wait for the first micro-batches, and after the last payment."""


@dataclass(slots=True)
class Outcome:
    """What came of one way: latencies over time, what was kept, and what the sinks got.

    `begun` and `ended` are of the last micro-batch; `waiting` is the time at the end and how
    long what is not matched by then has waited, on average and at least.
    """

    points: list[tuple[float, float]] = field(default_factory=list)
    events: int = 0
    kept: int = 0
    results: int = 0
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
        counted = [shard.operators.get("cases") for shard in batch.shards]
        patterns = [one for metrics in counted if metrics for one in metrics.patterns.values()]
        self.results += sum(one.found for one in patterns)

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
    parser.add_argument("--seconds", type=float, default=25.0, help="how long to feed each")
    parser.add_argument("--output", type=Path, default=Path("results/demo.png"))
    asked = parser.parse_args()
    application = load_application(HERE / "app.yaml").application
    bound = application.nodes[NODE].bound or 0.0
    print("measuring what a core can match (the first time, the matcher is compiled) ...")
    able = capacity()
    rate = OVERLOAD * able
    print(
        f"  {able:,.0f} payments/s; fed are {rate:,.0f}/s, and node {NODE} has a bound of "
        f"{bound:g} s"
    )
    print("starting Spark ...", flush=True)
    session = open_session("shedlight demo")
    try:
        with tempfile.TemporaryDirectory(prefix="shedlight-demo-") as folder:
            outcomes = {
                way: _run(session, application, way, (rate, asked.seconds), Path(folder, way))
                for way in WAYS
            }
    finally:
        close_session(session)
    _print_table(outcomes, bound)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    draw(outcomes, bound, asked.output)
    print(f"picture: {asked.output}")
    print("next: docs/tutorial.md starts from an empty folder and ends with a pattern of yours")
    return 0


def _run(
    session: "SparkSession",
    application: Application,
    way: str,
    load: tuple[float, float],
    folder: Path,
) -> Outcome:
    """Run one way, and print its latencies."""
    rate, seconds = load
    data = folder / "data"
    data.mkdir(parents=True)
    sources = {n: replace(s, path=str(data)) for n, s in application.sources.items()}
    sinks = {n: replace(s, path=str(folder / n)) for n, s in application.sinks.items()}
    placed = replace(application, sources=sources, sinks=sinks)
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
    server = open_server(log, checkpoint, None, 0, None)
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


def _print_table(outcomes: dict[str, Outcome], bound: float) -> None:
    print(f"\n{'':<8}{'latency at the end':>20}{'in the bound':>14}{'kept':>7}{'results':>9}")
    for way, one in outcomes.items():
        latencies = one.latencies()
        share = inside(latencies, bound)
        more = "" if one.waiting is None else "> "
        last = f"{more}{latencies[-1]:.1f} s" if latencies else "none came out"
        kept = f"{one.kept / one.events:.0%}" if one.events else ""
        print(f"{way:<8}{last:>20}{share:>14.0%}{kept:>7}{one.results:>9,}")


def inside(latencies: Sequence[float], bound: float) -> float:
    """Say which part of the micro-batches is within the bound on average."""
    return sum(one <= bound for one in latencies) / len(latencies) if latencies else 0.0


def draw(outcomes: dict[str, Outcome], bound: float, path: Path) -> None:
    """Draw latencies against the bound, and what the sinks got."""
    import matplotlib as mpl  # noqa: PLC0415  # slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    colours = {"none": "#d55e00", "local": "#cc79a7", "global": "#0072b2"}
    markers = {"none": "s", "local": "^", "global": "o"}
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(9, 3.4), layout="constrained", width_ratios=(2, 1)
    )
    open_end = {"linestyle": ":", "markerfacecolor": "white"}
    for way, one in outcomes.items():
        times, latencies = zip(*one.points, strict=True) if one.points else ((), ())
        style = {"color": colours[way], "marker": markers[way], "markersize": 4}
        left.plot(times, latencies, label=f"{way}: {WAYS[way]}", **style)
        if one.waiting is not None:
            ahead = zip(*one.points[-1:], one.waiting, strict=True)
            left.plot(*ahead, markevery=[-1], **style, **open_end)
    if any(one.waiting is not None for one in outcomes.values()):
        left.plot(
            [], [], color="grey", marker="o", label="still waiting at the end", **open_end
        )
    left.axhline(bound, color="black", linestyle="--", linewidth=1)
    left.annotate(f"bound {bound:g} s", (0, bound), (4, 4), textcoords="offset points")
    left.set_xlabel("time, s")
    left.set_ylabel("mean latency of a micro-batch, s")
    left.set_xlim(left=0)
    left.set_ylim(bottom=0)
    left.legend(frameon=False)
    bars = right.bar(
        list(outcomes), [one.results for one in outcomes.values()], color=colours.values()
    )
    right.bar_label(bars, fmt="{:,.0f}")
    right.set_ylabel("results at the sinks, in the same time")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main())
