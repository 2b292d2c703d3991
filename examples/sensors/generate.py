"""Makes readings of machines: most are well, some run hot and stop, some leak."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

MACHINES = 60
SECONDS = {"temperature": 5.0, "vibration": 5.0, "pressure": 5.0, "heartbeat": 10.0}
RATE = MACHINES * sum(1 / every for every in SECONDS.values())  # readings per second
FAULTY, LEAKING = 0.3, 0.2  # shares of machines
WARMING, SILENCE = 80.0, 60.0  # seconds from the fault to the end, and then without a word
START = np.datetime64("2026-03-02T06:00:00", "us")


def make_readings(count: int, seed: int) -> pa.Table:
    """Make readings in order of time, each sensor in its own rhythm."""
    rng = np.random.default_rng(seed)
    duration = 1.05 * count / RATE + 2 * max(SECONDS.values())
    faulty = rng.random(MACHINES) < FAULTY
    fault = np.where(faulty, rng.uniform(0, 0.7 * duration, MACHINES), np.inf)
    stops = np.where(faulty, fault + WARMING, np.inf)
    leaking = rng.random(MACHINES) < LEAKING
    leak = np.where(leaking, rng.uniform(0, 0.9 * duration, MACHINES), np.inf)

    times, machines, sensors, values = [], [], [], []
    for sensor, every in SECONDS.items():
        ticks = np.arange(0, duration, every)
        phase = rng.uniform(0, every, (MACHINES, 1))
        time = (phase + ticks + rng.normal(0, 0.05, (MACHINES, len(ticks)))).clip(0).ravel()
        machine = np.repeat(np.arange(MACHINES), len(ticks))
        noise = rng.normal(0, 1, time.size)
        worn = (time - fault[machine]).clip(0, WARMING) * (time < stops[machine])
        leaked = (time - leak[machine]).clip(0, 30.0)
        value = {
            "temperature": 60 + 3 * noise + 0.4 * worn,
            "vibration": 3 + 0.4 * noise + 0.03 * worn,
            "pressure": 5 + 0.03 * noise - 0.05 * leaked,
            "heartbeat": np.ones(time.size),
        }[sensor]
        speaks = (time < stops[machine]) | (time >= stops[machine] + SILENCE)
        times.append(time[speaks])
        machines.append(machine[speaks])
        sensors.append(np.full(int(speaks.sum()), sensor))
        values.append(value[speaks].round(3))
    every_time = np.concatenate(times)
    order = np.argsort(every_time, kind="stable")[:count]
    return pa.table(
        {
            "reading": np.arange(len(order)),
            "time": START + (every_time[order] * 1e6).astype("timedelta64[us]"),
            "machine": np.concatenate(machines)[order],
            "sensor": np.concatenate(sensors)[order],
            "value": np.concatenate(values)[order],
        }
    )


def write(folder: Path, count: int, seed: int) -> Path:
    """Write the readings where the application file looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "readings.parquet"
    pyarrow.parquet.write_table(make_readings(count, seed), path)
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the same one, the same events")
    parser.add_argument("--out", type=Path, default=Path("data"), help="the folder to write to")
    given = parser.parse_args()
    print(f"{given.events:,} events -> {write(given.out, given.events, given.seed)}")
