"""Where the first run begins to read a topic of Kafka: the same for all queries, and for good.

By default that is the end of the topic, and each query would take the end as it is when that
query starts: two nodes would read different records, and the malformed ones of the first
minute would be in no side output. So the end is looked up once and kept in the checkpoint.
"""

import json
from collections.abc import Mapping

from pyspark.sql import SparkSession

from shedlight.engines.spark.support.kafka_admin import (
    KafkaAdmin,
    Offsets,
    has_jvm,
    kafka_admin,
)
from shedlight.engines.spark.support.storage import StoredPath, create_file
from shedlight.errors import StateError
from shedlight.graph import Source

STARTING_OFFSETS = "startingOffsets"
_LATEST = "latest"  # Spark's default
_OTHERS = frozenset({"startingtimestamp", "startingoffsetsbytimestamp"})
_EARLIEST = -2  # as Spark has it


def starting_offsets(spark: SparkSession, source: Source, file: StoredPath) -> str | None:
    """Find where a source begins, as Spark takes it; None: as its options say.

    The file has what was found before, if there was a run before.
    """
    options = {name.lower(): text for name, text in source.options.items()}
    is_latest = options.get(STARTING_OFFSETS.lower(), _LATEST).lower() == _LATEST
    named = options.keys() & {"subscribe", "assign"}
    if not source.is_kafka or not is_latest or not named or options.keys() & _OTHERS:
        return None
    if not has_jvm(spark):
        return None
    with kafka_admin(spark, f"source {source.name}", options) as admin:
        return json.dumps(_current_offsets(admin, _partitions(admin, options), _read(file)))


def keep_starting_offsets(file: StoredPath, offsets: str) -> None:
    """Keep where a source begins, if that is not there yet."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        create_file(file, offsets)


def _partitions(admin: KafkaAdmin, options: Mapping[str, str]) -> Mapping[str, list[int]]:
    if "assign" in options:
        assigned: dict[str, list[int]] = json.loads(options["assign"])
        return assigned
    return admin.partitions([name.strip() for name in options["subscribe"].split(",")])


def _read(file: StoredPath) -> Offsets | None:
    try:
        return {
            topic: {int(number): int(offset) for number, offset in offsets.items()}
            for topic, offsets in json.loads(file.read_text()).items()
        }
    except FileNotFoundError:
        return None
    except (ValueError, AttributeError, TypeError) as error:
        raise StateError(
            f"{file} is damaged ({error}); put it back as it was, or start with a new "
            "checkpoint"
        ) from error


def _current_offsets(
    admin: KafkaAdmin, partitions: Mapping[str, list[int]], before: Offsets | None
) -> Offsets:
    """Give where to begin in all partitions that there are now.

    One that was not there before begins at its first record; so does one whose beginning Kafka
    has removed meanwhile.
    """
    if before is None:
        return admin.offsets(partitions, first=False)
    first = admin.offsets(partitions, first=True)
    return {
        topic: {
            number: max(before.get(topic, {}).get(number, _EARLIEST), offset)
            for number, offset in of_topic.items()
        }
        for topic, of_topic in first.items()
    }
