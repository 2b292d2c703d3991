"""What the driver tells the groups of a node about its sources: a folder that its query reads.

A source says itself how far it is, by its events; but a group does not see the events of other
groups, nor those that were shed, and silence says nothing. So the driver tells all groups how
far a source is by all of its events, that it is idle, or that it is at its end. It is told by
files beside those of the sources: they wake the groups up, and a replay reads them again.

Each source has a folder of its own. Two that read one folder would remove files from under each
other.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.support.atomic_file import replacing
from shedlight.errors import StateError
from shedlight.matching.operators.reorder import FOREVER, NEVER

_SCHEMA = "watermark bigint, idle boolean"


@dataclass(frozen=True, slots=True)
class SourceWatermark:
    """What there is to say about a source.

    Attributes:
        source: Its name.
        watermark: How far it is, in microseconds.
        idle: Whether it holds nobody back.
    """

    source: str
    watermark: int = NEVER
    idle: bool = False


def ended(source: str) -> SourceWatermark:
    """Say that a source is at its end."""
    return SourceWatermark(source, FOREVER)


@dataclass(frozen=True, slots=True)
class WatermarkFiles:
    """The marks of a node, in a folder."""

    folder: Path

    def read(self, spark: SparkSession, source: str) -> DataFrame:
        """Read the marks of a source as they come; a file that was read is removed in time."""
        folder = self.folder / source
        folder.mkdir(parents=True, exist_ok=True)
        reader = spark.readStream.schema(_SCHEMA).option("cleanSource", "delete")
        told = reader.json(str(folder))
        return told.selectExpr("CAST(0 AS INT) AS origin", "watermark", "idle")

    def write(self, marks: Iterable[SourceWatermark]) -> None:
        """Tell the groups."""
        for mark in marks:
            folder = self.folder / mark.source
            with replacing(folder / f"{_next(folder):012}.json") as path:
                path.write_text(json.dumps({"watermark": mark.watermark, "idle": mark.idle}))


def _next(folder: Path) -> int:
    """Number the files of a folder through, those that were removed too."""
    counter = folder / "_last"
    try:
        number = int(counter.read_text()) + 1 if counter.exists() else 1
    except ValueError as error:
        raise StateError(
            f"{counter} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error
    with replacing(counter) as path:
        path.write_text(str(number))
    return number
