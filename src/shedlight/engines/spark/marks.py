"""What the driver tells the groups of a node about its sources: a folder that its query reads.

A source says itself how far it is, by its events; but a group does not see the events of other
groups, nor those that were shed, and silence says nothing. So the driver tells all groups how
far a source is by all of its events, that it is idle, or that it is at its end. It is told by
files beside those of the sources: they wake the groups up, and a replay reads them again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # everybody calls it so

from shedlight.automaton.intake import FOREVER, NEVER
from shedlight.engines.spark.files import replacing

_SCHEMA = "name string, frontier bigint, idle boolean"


@dataclass(frozen=True, slots=True)
class SourceMark:
    """What there is to say about a source.

    Attributes:
        source: Its name.
        frontier: How far it is, in microseconds.
        idle: Whether it holds nobody back.
    """

    source: str
    frontier: int = NEVER
    idle: bool = False


def ended(source: str) -> SourceMark:
    """Say that a source is at its end."""
    return SourceMark(source, FOREVER)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of a node, in a folder."""

    folder: Path

    def prepare(self) -> None:
        """Make the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)

    def read(self, spark: SparkSession) -> DataFrame:
        """Read marks as they come; a file that was read is removed in time."""
        reader = spark.readStream.schema(_SCHEMA).option("cleanSource", "delete")
        return reader.json(str(self.folder))

    def write(self, marks: Iterable[SourceMark]) -> None:
        """Tell the groups."""
        lines = [
            json.dumps({"name": one.source, "frontier": one.frontier, "idle": one.idle}) + "\n"
            for one in marks
        ]
        if lines:
            with replacing(self.folder / f"{self._next():012}.json") as path:
                path.write_text("".join(lines))

    def _next(self) -> int:
        """Number the files through, those that were removed too."""
        counter = self.folder / "_last"
        number = int(counter.read_text()) + 1 if counter.exists() else 1
        with replacing(counter) as path:
            path.write_text(str(number))
        return number


def of_source(marks: DataFrame, source: str) -> DataFrame:
    """Give the marks of a source as a node reads them."""
    own = marks.where(F.col("name") == source)
    return own.selectExpr("CAST(0 AS INT) AS origin", "frontier", "idle")
