"""Run the example without and with shedding, and draw both latencies into one picture.

    python examples/overload/compare.py --seconds 60 --output results/overload

Each run gets the same payments at the same pace: three times what a core can match, which is
measured first, and from two thirds of the time on half as many again.
"""

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SHEDDERS = ("none", "global")
OVERLOAD = 3.0
"""How many times what a core can match there is to match."""
WARM, PATIENCE = 120.0, 30.0
"""Seconds to wait until a run is ready, and after the last payment."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch of the bottleneck: its end, mean latency, events, and those kept."""

    time: float
    latency: float
    events: int
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How many payments per second there are, for how long, and what changes when."""

    rate: float = 21_000.0
    seconds: float = 60.0
    step: float = 1.5

    @property
    def step_at(self) -> float:
        """When the rate changes."""
        return self.seconds * 2 / 3


def capacity(payments: int = 90_000, warm: int = 60_000) -> float:
    """Measure how many payments a second a core can match here and now, after the warm-up."""
    from shedlight.graph import load_application  # noqa: PLC0415
    from shedlight.matching.operators.cep_operator import (  # noqa: PLC0415
        build_operator,
        new_operator_state,
        step_operator,
    )
    from shedlight.matching.operators.reorder import StreamInput  # noqa: PLC0415  # slow to import

    spec = importlib.util.spec_from_file_location("feed", HERE / "feed.py")
    if spec is None or spec.loader is None:
        raise SystemExit(f"{HERE} has no feed.py")
    feed = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = feed  # its data classes look themselves up there
    spec.loader.exec_module(feed)
    stream = feed.Feed(rate=20_000.0)
    patterns = load_application(HERE / "app.yaml").application.operators["flows"].patterns
    first, rest = feed.payments(stream, 0, warm), feed.payments(stream, warm, payments)
    operator = build_operator(
        [(StreamInput("payments", ("number",), "time_us"), first.schema)], patterns
    )
    state, _ = step_operator(operator, new_operator_state(operator), {0: first})
    begun = time.perf_counter()
    step_operator(operator, state, {0: rest})
    return (payments - warm) / (time.perf_counter() - begun)


def edge_bound() -> float:
    """Read the bound of the bottleneck from the application file."""
    from shedlight.graph import load_application  # noqa: PLC0415  # slow to import

    return load_application(HERE / "app.yaml").application.nodes["edge"].bound or 0.0


def run(shedder: str, load: Load, folder: Path, bound: float | None = None) -> list[Batch]:
    """Run the example with a shedder, fed in real time; give the micro-batches.

    The bound is that of the bottleneck, in seconds; None: as the application file says.
    """
    with running(shedder, folder, bound) as (log, _):
        began = time.time()
        feed = [sys.executable, str(HERE / "feed.py"), str(folder / "data" / "payments")]
        feed += ["--rate", str(load.rate), "--duration", str(load.seconds)]
        feed += ["--step-at", str(load.step_at), "--step-factor", str(load.step)]
        subprocess.run(feed, check=True, capture_output=True)  # noqa: S603  # our own command
        time.sleep(PATIENCE / 3 if shedder != "none" else PATIENCE)
    return read_log(log, began)


@contextmanager
def running(
    shedder: str, folder: Path, bound: float | None = None
) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """Run the example in a folder, without payments as yet; give its log and its process."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "data" / "payments").mkdir(parents=True)
    text = (HERE / "app.yaml").read_text()
    if bound is not None:
        text = text.replace(f"bound: {edge_bound():g} s", f"bound: {bound:g} s")
    (folder / "app.yaml").write_text(text)
    log = folder / "log.jsonl"
    command = [sys.executable, "-m", "shedlight.cli", "run", str(folder / "app.yaml")]
    command += ["--shedder", shedder, "--log", str(log)]
    errors = folder / "errors.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(  # noqa: S603  # our own command
            command, stdout=subprocess.DEVNULL, stderr=file
        )
    try:
        _wait_for(log, process, errors)
        yield log, process
    finally:
        process.terminate()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()


def _wait_for(log: Path, running: "subprocess.Popen[bytes]", errors: Path) -> None:
    """Wait until the nodes have run a micro-batch each: they are warm then."""
    over = time.monotonic() + WARM
    while time.monotonic() < over and running.poll() is None:
        if log.exists():
            rows = map(json.loads, filter(None, log.read_text().splitlines()))
            nodes = {row["node"] for row in rows if row["record"] == "micro_batch"}
            if {"edge", "core"} <= nodes:
                return
        time.sleep(0.2)
    raise SystemExit(f"the run did not start: {errors.read_text()}")


def read_log(log: Path, began: float, node: str = "edge") -> list[Batch]:
    """Read the micro-batches of a node that kept anything, by seconds from the beginning."""
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    return [
        Batch(row["time"] - began, row["latency"]["mean"], row["events"], row["kept"])
        for row in rows
        if row["record"] == "micro_batch" and row["node"] == node and row["latency"]
    ]


def inside(batches: Sequence[Batch], bound: float, settled: float) -> float:
    """Say which part of the micro-batches after settling is within the bound on average."""
    after = [one.latency <= bound for one in batches if one.time >= settled]
    return sum(after) / len(after) if after else 0.0


def draw(results: dict[str, list[Batch]], bound: float, load: Load, path: Path) -> None:
    """Draw the latencies of all runs, and the bound."""
    import matplotlib as mpl  # noqa: PLC0415  # slow to import

    mpl.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    styles = {
        "none": ("#d55e00", "s", "without shedding"),
        "global": ("#0072b2", "o", "Shedlight"),
    }
    for name, batches in results.items():
        colour, marker, label = styles[name]
        times, latencies = [b.time for b in batches], [b.latency for b in batches]
        axes.plot(times, latencies, marker=marker, markersize=4, color=colour, label=label)
    axes.axhline(bound, color="black", linestyle="--", linewidth=1)
    axes.annotate(f"bound {bound:g} s", (0, bound), (4, 4), textcoords="offset points")
    axes.axvline(load.step_at, color="grey", linestyle=":", linewidth=1)
    note = f"{load.step:g} times as many events"
    axes.annotate(note, (load.step_at, 0), (4, 4), textcoords="offset points")
    axes.set_xlabel("time, s")
    axes.set_ylabel("mean latency of a micro-batch, s")
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.9))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main() -> int:
    """Run both, print what came of it, and draw the picture."""
    parser = argparse.ArgumentParser(description="Run the example without and with shedding.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to feed for")
    parser.add_argument(
        "--rate", type=float, help="payments per second; three times the capacity by default"
    )
    parser.add_argument("--output", type=Path, default=Path("results/overload"))
    asked = parser.parse_args()
    rate = asked.rate or OVERLOAD * capacity()
    load = Load(rate=rate, seconds=asked.seconds)
    bound = edge_bound()
    asked.output.mkdir(parents=True, exist_ok=True)
    results = {}
    for shedder in SHEDDERS:
        print(f"{shedder}: feeding {load.rate:,.0f} payments/s for {load.seconds:g} s ...")
        results[shedder] = run(shedder, load, asked.output / shedder)
        latencies = [one.latency for one in results[shedder]] or [0.0]
        share = inside(results[shedder], bound, load.seconds / 4)
        print(
            f"  last latency {latencies[-1]:.1f} s, {share:.0%} of micro-batches in the bound"
        )
    rows = {name: [list(vars_of(b)) for b in some] for name, some in results.items()}
    (asked.output / "latency.json").write_text(json.dumps(rows))
    draw(results, bound, load, asked.output / "overload.png")
    print(f"-> {asked.output / 'overload.png'}")
    return 0


def vars_of(batch: Batch) -> tuple[float, float, int, int]:
    """Give the values of a micro-batch."""
    return (batch.time, batch.latency, batch.events, batch.kept)


if __name__ == "__main__":
    sys.exit(main())
