"""Small files of traces, and what was read of them in short."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet


def events_of(trace):
    """Give time, type and machine of each event."""
    columns = (trace.events[name].to_pylist() for name in ("time", "type", "key"))
    return list(zip(*columns, strict=True))


def flaws_of(trace):
    """Give file, number and flaw of each malformed row."""
    return [(one.file, one.row, one.flaw) for one in trace.malformed]


def write_clusters(folder, numbers=range(1, 9)):
    """Write Parquet files of two events each, at 10 times and 100 times the cluster."""
    for number in numbers:
        columns = {
            "time_us": [10 * number, 100 * number],
            "machine_id": [number, number + 1],
            "event": ["FAIL", "FINISH"],
        }
        pyarrow.parquet.write_table(pa.table(columns), folder / f"cluster_{number}.parquet")


def write_lines(path, *lines):
    """Write lines; a value is written as JSON."""
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    text = "".join(f"{one}\n" for one in texts).encode()
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def instance(time, machine, event=3):
    """Make a row as the JSON files of 2019 have it: whole numbers are text."""
    return {
        "time": str(time),
        "type": str(event),
        "collection_id": "7",
        "instance_index": "0",
        "machine_id": str(machine),
        "resource_request": {"cpus": 0.01, "memory": 0.02},
    }
