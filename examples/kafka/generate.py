"""Makes logins of many users, a line of JSON each, as they would be in a topic of Kafka."""

import argparse
import json
from pathlib import Path

import numpy as np

USERS, RATE = 200, 500.0  # users; events per second
START_MS = 1_767_603_600_000  # 2026-01-05T09:00:00Z
TYPES = {"view": 0.6, "login": 0.15, "login failed": 0.25}


def make_lines(count: int, seed: int) -> list[str]:
    """Make events in order of time."""
    rng = np.random.default_rng(seed)
    times = START_MS + np.sort(rng.integers(0, int(count / RATE * 1_000) + 1, count))
    users = rng.integers(1, USERS + 1, count)
    types = rng.choice(list(TYPES), count, p=list(TYPES.values()))
    return [
        json.dumps({"n": n, "time_ms": int(time), "user": int(user), "type": str(type_)})
        for n, (time, user, type_) in enumerate(zip(times, users, types, strict=True), 1)
    ]


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
