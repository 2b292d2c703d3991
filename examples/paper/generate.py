"""Makes events like those of the paper's example: two sources, four types by the machine."""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

EVENT_NAMES = ("SUBMIT", "SCHEDULE", "FINISH", "FAIL", "EVICT", "KILL")


def events(count: int, seed: int, start: int = 0) -> pa.Table:
    """Make events, ten a second on average, of machines that are all alike."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "time_us": start + np.cumsum(rng.exponential(100_000, count)).astype(np.int64),
            "machine_id": rng.integers(0, 1_000, count),
            "collection_id": rng.integers(0, 50, count),
            "instance_index": np.arange(count),
            "event": [EVENT_NAMES[i] for i in rng.integers(0, len(EVENT_NAMES), count)],
            "avg_cpu": rng.random(count).round(4),
        }
    )


def write(folder: Path, count: int, seed: int) -> None:
    """Write the two sources as the application file names them."""
    for number, name in enumerate(("s1", "s2")):
        (folder / name).mkdir(parents=True, exist_ok=True)
        table = events(count, seed + number)
        pyarrow.parquet.write_table(table, folder / name / "part-0.parquet")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    write(given.folder, given.count, given.seed)
