"""Makes events of a cluster: tasks come and go, and some machines are sick for a while."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

MACHINES, RACKS = 1_000, 50
RATE = 250.0  # events per second
SICK = 0.3  # share of machines that are sick once
SICK_SECONDS = 30.0
RETRIES, PAUSE = 3, 4.0  # how often a sick machine tries a task again, and after how long
PLACED = 0.9  # share of evicted tasks that are placed again


def make_events(count: int, seed: int) -> pa.Table:
    """Make events in order of time; a fifth are of tasks, the rest are samples of load."""
    rng = np.random.default_rng(seed)
    duration = count / RATE
    sick_from = np.where(
        rng.random(MACHINES) < SICK, rng.uniform(0, duration, MACHINES), np.inf
    )
    tasks = make_tasks(rng, count // 10, duration, sick_from)
    samples = make_samples(rng, count - len(tasks), duration, sick_from)
    events = pa.concat_tables([tasks, samples]).sort_by("time_us")
    return events.add_column(1, "event_id", pa.array(np.arange(count)))


def make_tasks(
    rng: np.random.Generator, number: int, duration: float, sick_from: np.ndarray
) -> pa.Table:
    """Make what becomes of tasks: they are scheduled, and finish, fail or are evicted."""
    task = np.arange(number)
    machine = rng.integers(0, MACHINES, number)
    start = rng.uniform(0, duration, number)
    end = start + rng.lognormal(np.log(20), 0.8, number)
    ill = is_sick(sick_from, machine, end)
    drawn = rng.random(number)
    fails = drawn < np.where(ill, 0.6, 0.05)
    evicted = ~fails & (drawn < np.where(ill, 0.9, 0.12))
    ending = np.select([fails, evicted], ["FAIL", "EVICT"], "FINISH")

    again = np.flatnonzero(evicted & (rng.random(number) < PLACED))
    retried = np.flatnonzero(fails & ill)
    begun = table(start, machine, task, "SCHEDULE")
    ended = table(end, machine, task, ending)
    elsewhere = rng.integers(0, MACHINES, len(again))
    placed = table(
        end[again] + rng.exponential(3, len(again)), elsewhere, task[again], "SCHEDULE"
    )
    failed = [
        table(end[retried] + (1 + n) * PAUSE, machine[retried], task[retried], "FAIL")
        for n in range(RETRIES)
    ]
    events = pa.concat_tables([begun, ended, placed, *failed])
    return events.filter(pc.field("time_us") < int(duration * 1e6))


def make_samples(
    rng: np.random.Generator, number: int, duration: float, sick_from: np.ndarray
) -> pa.Table:
    """Make samples of how busy machines are; a sick one is busier."""
    time = rng.uniform(0, duration, number)
    machine = rng.integers(0, MACHINES, number)
    more = np.where(is_sick(sick_from, machine, time), 0.4, 0.0)
    cpu = (rng.beta(2, 4, number) + more).clip(0, 1).round(3)
    return table(time, machine, None, "USAGE", cpu)


def is_sick(sick_from: np.ndarray, machine: np.ndarray, time: np.ndarray) -> np.ndarray:
    """Tell whether machines are sick at a time."""
    began = sick_from[machine]
    sick: np.ndarray = (began <= time) & (time < began + SICK_SECONDS)
    return sick


def table(
    time: np.ndarray,
    machine: np.ndarray,
    task: np.ndarray | None,
    event: np.ndarray | str,
    cpu: np.ndarray | None = None,
) -> pa.Table:
    """Put columns together; what is not there is null."""
    count = len(time)
    return pa.table(
        {
            "time_us": (time * 1e6).astype(np.int64),
            "machine": machine,
            "rack": machine * RACKS // MACHINES,
            "task": pa.nulls(count, pa.int64()) if task is None else pa.array(task),
            "event": pa.array(np.broadcast_to(event, count).astype(str)),
            "cpu": pa.nulls(count, pa.float64()) if cpu is None else pa.array(cpu),
        }
    )


def write(folder: Path, count: int, seed: int) -> Path:
    """Write the events where the application file looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "events.parquet"
    pyarrow.parquet.write_table(make_events(count, seed), path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the same one, the same events")
    parser.add_argument("--out", type=Path, default=Path("data"), help="the folder to write to")
    given = parser.parse_args()
    print(f"{given.events:,} events -> {write(given.out, given.events, given.seed)}")
