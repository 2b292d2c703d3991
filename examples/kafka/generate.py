"""Makes logins of many users, a line of JSON each, as they would be in a topic of Kafka.

They are like those of the notebook: as many users, networks, types, and events per second.
"""

import argparse
import json
from pathlib import Path

import numpy as np

USERS, NETWORKS, RATE = 600, 20, 500.0  # users, networks; events per second
START = np.datetime64("2026-01-05T09:00:00.000")
TYPES = {"view": 0.6, "login": 0.15, "login failed": 0.25}


def make_lines(count: int, seed: int) -> list[str]:
    """Make events in order of time."""
    rng = np.random.default_rng(seed)
    times = START + np.sort(rng.integers(0, int(count / RATE * 1_000) + 1, count))
    columns = {
        "n": np.arange(1, count + 1),
        "at": np.char.add(np.datetime_as_string(times), "Z"),
        "user": rng.integers(1, USERS + 1, count),
        "network": rng.integers(1, NETWORKS + 1, count),
        "type": rng.choice(list(TYPES), count, p=list(TYPES.values())),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]


def write(folder: Path, count: int, seed: int) -> Path:
    """Write the values of the topic, one to a line."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "events.jsonl"
    path.write_text("".join(f"{line}\n" for line in make_lines(count, seed)), encoding="utf-8")
    return path


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, default=1, help="the same one, the same events")
    parser.add_argument("--out", type=Path, default=Path("data"), help="the folder to write to")
    given = parser.parse_args()
    print(f"{given.events:,} events -> {write(given.out, given.events, given.seed)}")
