"""Watermark updates that the driver sends to the shards of a node: files that its query reads.

Events carry the watermark of their source; but a shard does not see the events of other shards,
nor those that were shed, and where none come there is no watermark. So the driver sends all
shards the watermark by all events of a source, that it is idle, or that it is at its end. It is
sent by files, which the query reads like those of sources: they wake the shards up, and a
replay reads them again.

Each source has a folder of its own. Two that read one folder would remove files from under each
other.
"""

import json
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from shedlight.engines.spark.source.arrival import with_arrivals
from shedlight.engines.spark.support.arrival_sketch import ARRIVAL
from shedlight.engines.spark.support.storage import (
    StoredPath,
    create_file,
    replace_file,
)
from shedlight.errors import StateError
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.reorder import FOREVER, NEVER

_SCHEMA = "watermark bigint, idle boolean"


@dataclass(frozen=True, slots=True)
class SourceWatermark:
    """The watermark of a source, in microseconds, and whether it is idle."""

    source: str
    watermark: int = NEVER
    idle: bool = False


def end_of(source: str) -> SourceWatermark:
    """Give the watermark of a source that is at its end."""
    return SourceWatermark(source, FOREVER)


@dataclass(frozen=True, slots=True)
class WatermarkFiles:
    """The watermark updates of a node, in a folder."""

    folder: StoredPath

    def read(self, spark: SparkSession, source: str) -> DataFrame:
        """Read the updates of a source as they come; files are removed some time after."""
        folder = self.folder / source
        folder.mkdir(parents=True, exist_ok=True)
        reader = spark.readStream.schema(_SCHEMA).option("cleanSource", "delete")
        updates = with_arrivals(reader.json(str(folder)))
        return updates.selectExpr(
            "CAST(0 AS INT) AS origin",
            "watermark",
            "idle",
            "CAST(NULL AS STRING) AS steps",
            quote_name(ARRIVAL),
        )

    def write(self, updates: Iterable[SourceWatermark]) -> None:
        """Send updates to the shards."""
        for update in updates:
            folder = self.folder / update.source
            row = {"watermark": update.watermark, "idle": update.idle}
            create_file(folder / f"{_next_number(folder):012}.json", json.dumps(row))


class WatermarkSender:
    """Sends watermark updates to the shards of a node; what cannot be written waits.

    Of a source only the last one does, for it says all that those before it did; its end stays
    its end. Several threads may send.
    """

    def __init__(self, files: WatermarkFiles) -> None:
        self._files, self._sending = files, threading.Lock()
        self._unsent: dict[str, SourceWatermark] = {}

    def send(self, updates: Iterable[SourceWatermark]) -> None:
        """Send updates, after those that could not be sent before."""
        with self._sending:
            for update in updates:
                waiting = self._unsent.get(update.source, update)
                if waiting.watermark <= update.watermark:
                    self._unsent[update.source] = update
            for source, update in list(self._unsent.items()):
                self._files.write([update])
                del self._unsent[source]


def _next_number(folder: StoredPath) -> int:
    """Number the files of a folder through, those that were removed too."""
    counter = folder / "_last"
    try:
        number = int(counter.read_text()) + 1 if counter.exists() else 1
    except ValueError as error:
        raise StateError(
            f"{counter} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error
    replace_file(counter, str(number))
    return number
