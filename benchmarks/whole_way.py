"""What a user gets: the kernel alone, and the whole way from columns or files to matches."""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet

from benchmarks.matching import SEQUENCE
from benchmarks.question import Answer, ratio
from benchmarks.streams import EVENTS, prepared, random_stream
from shedlight.engines.tables import match_tables
from shedlight.language import parse_pattern
from shedlight.matching.operators.cep_operator import schema_of
from shedlight.matching.operators.reorder import StreamInput

_FILE_EVENTS = 50_000_000


def kernel_and_whole_way() -> Iterator[Answer]:
    """Compare `match_tables` (intake, matching, complex events) with the matching in it."""
    stream = random_stream()
    pattern = parse_pattern(SEQUENCE, schema_of(stream.table.schema)).pattern
    inputs = [(StreamInput("stream", ("id",), "time"), stream.table)]
    figure, whole, kernel = ratio(
        lambda: match_tables(inputs, {"P": pattern}), prepared(SEQUENCE, stream)
    )
    speeds = f"{EVENTS / whole / 1e6:.0f} M events/s against {EVENTS / kernel / 1e6:.0f} M"
    yield Answer("the whole of match against the kernel", figure, 5, detail=speeds)


def large_file() -> Iterator[Answer]:
    """Match a file of 50 million events, and see how much memory it takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.parquet"
        piece, writer = 1_000_000, None
        for number in range(_FILE_EVENTS // piece):
            table = random_stream(types=200, events=piece, seed=number).table.drop_columns("id")
            times = table["time"].to_numpy() + number * piece * 1_000
            table = table.set_column(table.column_names.index("time"), "time", [times])
            writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()
        began = time.perf_counter()
        _command("match", "--pattern", SEQUENCE, "--input", str(path), "--limit", "1")
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    yield Answer("50 million events of a file: MiB", used, 1024, detail=f"{seconds:.0f} s")


def starting() -> Iterator[Answer]:
    """Time `--help`, and `match` on a small file once it is compiled, in processor seconds."""
    yield Answer("shedlight --help: processor seconds", _processor_seconds("--help"), 0.4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.csv"
        path.write_text("time,type\n0,A\n1000000,B\n")
        text = "SELECT * WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"
        command = ("match", "--pattern", text, "--input", str(path))
        _command(*command)
        figure = min(_processor_seconds(*command) for _ in range(3))
    yield Answer("shedlight match on a small file: processor seconds", figure, 1)


def _processor_seconds(*arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _command(*arguments)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _command(*arguments: str) -> None:
    command = [sys.executable, "-m", "shedlight.cli", *arguments]
    subprocess.run(command, check=True, capture_output=True)  # noqa: S603  # our own command


QUESTIONS = (starting, kernel_and_whole_way, large_file)
