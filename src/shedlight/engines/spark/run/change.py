"""Has a checkpoint go on with another application, before its run does.

First what nodes have begun is brought to its end with the application that it was begun with,
and sinks get what is left for them of patterns that end. Then it is put on record what there is
now, and since when: from then on shards read their states as those of an earlier version
(`step/changed.py`). Until that moment nothing has changed; whoever is killed begins anew.
"""

import json
import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from shedlight.engines.spark.control.latest_times import with_latest
from shedlight.engines.spark.control.micro_batch import read_report
from shedlight.engines.spark.outbox.delivery import LATE, SINK
from shedlight.engines.spark.run.deployment import Deployment
from shedlight.engines.spark.run.divide import finish_begun
from shedlight.engines.spark.run.fingerprint import (
    ApplicationChangedError,
    CheckpointRecord,
    Lines,
    describe,
    describe_changes,
    fingerprint_lines,
    write_record,
)
from shedlight.engines.spark.run.finite import run_available_now
from shedlight.engines.spark.run.outbox_readers import operators_reading, source_names
from shedlight.engines.spark.run.outbox_writer import outbox_writer, with_query_conf
from shedlight.engines.spark.run.sharding import Sharding
from shedlight.engines.spark.support.checkpoint import count_streams, last_micro_batches
from shedlight.engines.spark.support.placement import OperatorChain, node_order
from shedlight.engines.spark.support.plan_store import ActivePlan
from shedlight.engines.spark.support.spark_errors import to_user_error
from shedlight.engines.spark.support.versions import find_unchanged, next_versions
from shedlight.errors import StateError
from shedlight.graph import Application, Stream, load_application, with_schemas
from shedlight.matching.operators.reorder import NEVER

_LOG = logging.getLogger(__name__)
_POLL_S = 0.05


class MakeDeployment(Protocol):
    """Makes the deployment of an application, with what is to be on record of it.

    Of what the user reads and writes himself, an earlier one takes what it has names for.
    """

    def __call__(
        self,
        application: Application,
        record: CheckpointRecord | None = None,
        *,
        is_earlier: bool = False,
    ) -> Deployment:
        """Make it; with a record, what is on record stays as it is for now."""


def change(
    spark: SparkSession, changed: ApplicationChangedError, make: MakeDeployment
) -> Deployment:
    """Have a checkpoint go on with another application.

    Raises:
        StateError: It cannot go on with this one, and nothing has changed.
        ShedlightError: It does not fit its sources, and nothing has changed.
    """
    if not isinstance(changed.checkpoint, Path):  # who has lost it might go on with the other
        raise StateError(f"{changed}: it can change only in a local folder") from changed
    record, now = changed.record, changed.application
    before = recorded_application(record, now)
    check_change(record.sharding, before, now, record.lines, changed.lines)
    earlier = make(before, record, is_earlier=True)
    _check_new_nodes(earlier, now)
    _check_late(earlier, now)
    for node in earlier.nodes:
        _finish(spark, earlier, node)
    _deliver_rest(earlier, now)
    new = _next_record(earlier, record, now, changed.lines)
    deployment = make(now, new)
    _check_references(earlier, deployment)
    write_record(deployment.paths.fingerprint, new)
    deployment.begin()
    _LOG.warning(
        "the application has changed; what is unchanged goes on:\n%s",
        describe_changes(record.lines, changed.lines),
    )
    return deployment


def check_changed(deployment: Deployment, now: Application) -> None:
    """See, while a run goes on, that it can go on with another application.

    Raises:
        ShedlightError: It cannot.
    """
    if not isinstance(deployment.paths.root, Path):
        raise StateError(
            f"the checkpoint {deployment.paths.root} is in no local folder, and only there "
            "a run goes on with another application; leave it as it was, or start with a new "
            "checkpoint"
        )
    before, sharding = deployment.application, deployment.sharding
    check_change(sharding, before, now, deployment.record.lines, fingerprint_lines(now))
    schemas = {name: source.schema for name, source in before.sources.items() if source.schema}
    with_schemas(now, schemas)
    node_order(now)
    _check_new_nodes(deployment, now)
    _check_late(deployment, now)


def recorded_application(record: CheckpointRecord, now: Application) -> Application:
    """Give the application that a checkpoint is of; its sources are those of now."""
    described = record.application
    loaded = load_application(json.dumps(described["application"])).application
    places = described["sinks"]
    sinks = {name: replace(sink, **places[name]) for name, sink in loaded.sinks.items()}
    sources = {name: now.sources.get(name, source) for name, source in loaded.sources.items()}
    return replace(
        loaded, sources=sources, sinks=sinks, unshed_sample=described["unshed_sample"]
    )


# What may change


def check_change(
    sharding: Sharding,
    before: Application,
    now: Application,
    lines: Iterable[str],
    lines_now: Iterable[str],
) -> None:
    """See that a checkpoint can go on with another application.

    Raises:
        StateError: It cannot.
    """
    lines, lines_now = tuple(lines), tuple(lines_now)
    if any(line.startswith("channels:") for line in (*lines, *lines_now)):
        raise StateError(
            "an application whose nodes are joined by `channels` cannot change, for what is on "
            "its way between them is of the application as it was; start with a new checkpoint "
            "and another prefix of topics"
        )
    _check_sources(lines, lines_now)
    then, chains = sharding.chains(before), sharding.chains(now)
    for node in then:
        if node not in chains:
            continue
        ways = [[(c.key, len(c.shards), c.external) for c in of[node]] for of in (then, chains)]
        if ways[0] != ways[1]:
            texts = ["; ".join(map(_describe_chain, of[node])) for of in (then, chains)]
            raise StateError(
                f"node {node} would read and divide its streams otherwise than it has begun:\n"
                f"  before: {texts[0]}\n  now:    {texts[1]}\n"
                "put operators that are new on a node of their own, leave those in that are "
                "the last to read a stream, or start with a new checkpoint"
            )


def _check_sources(lines: Iterable[str], lines_now: Iterable[str]) -> None:
    before = [line for line in lines if _is_of_source(line)]
    now = [line for line in lines_now if _is_of_source(line)]
    names = {_source_name(line) for line in before}
    now = [line for line in now if _source_name(line) in names]
    if before != now:
        raise StateError(
            "a source is another one than the run has begun to read:\n"
            f"{describe_changes(before, now)}\n"
            "leave it as it was and add another source; one that nobody reads costs nothing"
        )


def _is_of_source(line: str) -> bool:
    """Say whether a line is about a source, and not about what patterns call of functions."""
    return line.startswith("sources.") and ".columns.#" not in line


def _source_name(line: str) -> str:
    return line.split(":", maxsplit=1)[0].split(".")[1]


def _describe_chain(chain: OperatorChain) -> str:
    key = f" by {', '.join(map(str, chain.key))}" if chain.key else ""
    names = ", ".join(spec.name for spec in chain.operators)
    return f"{names} read {', '.join(map(str, chain.external))}{key}"


def _check_new_nodes(earlier: Deployment, now: Application) -> None:
    paths = earlier.paths
    for node in now.nodes:
        if node not in earlier.nodes and paths.query(node).exists():
            raise StateError(
                f"a node {node} was there before, and has ended; give the new one another name"
            )


def _check_late(earlier: Deployment, now: Application) -> None:
    """See that deliveries of late events go on to read what they have begun to read."""
    for name, source in now.sources.items():
        streams = count_streams(earlier.paths.delivery(f"{name}.{LATE}"))
        before, readers = (
            [(spec.name, spec.node) for spec in operators_reading(of, name)]
            for of in (earlier.application, now)
        )
        if source.late is None or not streams or not readers:
            continue
        if readers != before or len(readers) != streams:
            raise StateError(
                f"the side output of late events of source {name} was begun with other "
                f"operators than {', '.join(each for each, _ in readers)}; have those that are "
                f"new read a source of their own, or leave `late` of {name} out"
            )


def _check_references(earlier: Deployment, deployment: Deployment) -> None:
    """See that patterns that go on are built as they were."""
    unchanged = find_unchanged(earlier.application, deployment.application)
    before, now = _built_patterns(earlier), _built_patterns(deployment)
    for stream in sorted(unchanged):
        if before[stream] != now[stream]:
            raise StateError(
                f"{stream} would keep whole events in another way, because of other patterns "
                "of its node that are new or gone; put those that are new on another node, or "
                "start with a new checkpoint"
            )


def _built_patterns(deployment: Deployment) -> Mapping[Stream, str]:
    return {
        stream: str(matcher.pattern)
        for query in deployment.nodes.values()
        for chain in query.chains
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True)
        for stream, matcher in zip(spec.outputs, operator.matchers, strict=True)
    }


# With the application that was


def _finish(spark: SparkSession, earlier: Deployment, node: str) -> None:
    """Bring to its end what a node has begun, and see how far it has read its sources."""
    query = earlier.paths.query(node)
    _note(earlier, node, finish_begun(spark, earlier, node))
    if not _is_seen(earlier, node):
        _note(earlier, node, _run_once(spark, earlier, node))
    if not _is_seen(earlier, node):
        raise StateError(
            f"the run was killed before it had noted how far node {node} had read its sources, "
            f"and {_unseen(earlier, node)} gave nothing since; go on with the application as "
            "it was until an event has come, and change it then"
        )
    sharding, batches = earlier.sharding, last_micro_batches(query)
    if node in sharding.batches and batches == (sharding.batches[node],) * 2:
        raise StateError(
            f"the checkpoint {earlier.paths.root} is still being divided into "
            f"{sharding.shards} shards; go on with the application as it was until every "
            "node has had a micro-batch, and change it then"
        )


def _is_seen(earlier: Deployment, node: str) -> bool:
    if not source_names(earlier.chains[node]):
        return True  # how far its sources are, other nodes say
    active = earlier.nodes[node].plans.active
    _, done = last_micro_batches(earlier.paths.query(node))
    return active is None or (active.after >= done and not active.unseen)


def _unseen(earlier: Deployment, node: str) -> str:
    active = earlier.nodes[node].plans.active
    return ", ".join(active.unseen if active and active.unseen else ["its sources"])


def _run_once(
    spark: SparkSession, earlier: Deployment, node: str
) -> list[StreamingQueryProgress]:
    """Run one micro-batch more, if there is something to read."""
    with with_query_conf(spark, earlier.nodes[node]):
        writer = outbox_writer(earlier, node).trigger(processingTime="1 day")
        running = writer.start()
    try:
        while running.isActive and not running.status["message"].startswith("Waiting for"):
            time.sleep(_POLL_S)
    finally:
        running.stop()
    error = running.exception()
    if error is not None:
        raise to_user_error(error) from error
    return running.recentProgress


def _note(earlier: Deployment, node: str, progress: Iterable[StreamingQueryProgress]) -> None:
    plans = earlier.nodes[node].plans
    for each in progress:
        report = read_report(node, each)
        if report is not None:
            active = plans.active or ActivePlan(1)
            plans.activate(with_latest(active, earlier.application, report))


def _deliver_rest(earlier: Deployment, now: Application) -> None:
    """Have sinks get what is left for them of patterns that end, and sinks that end."""
    unchanged = find_unchanged(earlier.application, now)
    for name, sink in earlier.application.sinks.items():
        goes_on = name in now.sinks and now.sinks[name].stream == sink.stream
        if not goes_on or sink.input not in unchanged:
            writer = earlier.delivery(f"{SINK} {name}").writer()
            run_available_now(writer, f"sink {name} cannot be written")


# What is on record


def _next_record(
    earlier: Deployment, record: CheckpointRecord, now: Application, lines: Lines
) -> CheckpointRecord:
    """Say what there is now, and since when."""
    before, moment = earlier.application, time.time()
    latest: dict[str, int] = {}
    for query in earlier.nodes.values():
        active = query.plans.active
        for name, last in (active.latest if active else {}).items():
            latest[name] = max(last, latest.get(name, NEVER))
    is_there = {
        name: name in before.sinks and before.sinks[name].stream == sink.stream
        for name, sink in now.sinks.items()
    }
    came = {name: moment for name, there in is_there.items() if not there}
    came |= {n: began for n, began in record.sinks.items() if is_there.get(n)}
    versions = next_versions(before, now, record.versions, latest)
    batches = {node: last_micro_batches(earlier.paths.query(node))[1] for node in earlier.nodes}
    ended = {"version": versions.number - 1, "until": moment, "batches": batches}
    return CheckpointRecord(
        lines=lines,
        sharding=replace(record.sharding, before=None, batches={}),  # all have begun
        application=describe(now, lines),
        versions=versions,
        sinks=came,
        changes=(*record.changes, {**ended, "application": record.application}),
    )
