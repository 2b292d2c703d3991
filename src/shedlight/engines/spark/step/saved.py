"""The state of a shard as bytes: watermarks, the operators of its chain, events referred to.

Of the unshed sample it has the shadow of a pattern and the results that it counted, by key.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np

from shedlight.engines.spark.codec.decode import decode_table, plain_bytes
from shedlight.engines.spark.codec.encode import encode_table
from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.engines.spark.step.changed import EarlierState, version_facts
from shedlight.engines.spark.step.completeness import Completeness, OpenThreshold
from shedlight.engines.spark.step.parts import (
    ChannelProgress,
    OpenBatch,
    Progresses,
    WatermarkUpdate,
)
from shedlight.engines.spark.step.sample_counts import PatternSample, ResultCounts
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.graph.application import parse_stream
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.state.compact import shrink
from shedlight.matching.state.container import Section, read_container, write_container
from shedlight.matching.state.saved import (
    OPERATOR,
    PATTERN,
    match_state,
    operator_sections,
    operator_state,
    pattern_section,
)
from shedlight.shedding.estimate import SampleCounts
from shedlight.shedding.thresholds import ThresholdHistory

CHAIN, EVENTS, SHADOW, COUNTS = "chain", "events", "shadow", "counts"


def to_bytes(chain: ChainRuntime, state: ChainState) -> bytes:
    """Save the state of a shard."""
    return write_container(to_sections(chain, state))


def to_sections(
    chain: ChainRuntime, state: ChainState, *, with_gaps: bool = False
) -> list[Section]:
    """Save the state of a shard as sections, with gaps in the arrays of its patterns or not."""
    facts = {
        "operators": _names(chain),
        "watermarks": [[*origin, watermark] for origin, watermark in state.watermarks.items()],
        "idle": sorted(state.idle),
        **version_facts(chain.spec),
        **_completeness_facts(state.completeness),
        **_progress_facts(state.progresses),
    }
    sections = [Section(CHAIN, facts=facts)]
    for name, operator, each in zip(
        _names(chain), chain.operators, state.operators, strict=True
    ):
        sections += operator_sections(operator, each, name, with_gaps=with_gaps)
    for name, table in state.event_tables.items():
        facts = {"start": table.start, "earlier": len(table.old)}
        rows = table.events
        events = plain_bytes(rows) if with_gaps else encode_table(rows).to_pybytes()
        sections.append(Section(EVENTS, name, facts=facts, body=table.old.tobytes() + events))
    return [*sections, *_sample_sections(chain, state, with_gaps=with_gaps)]


def from_bytes(chain: ChainRuntime, data: bytes) -> ChainState:
    """Read the saved state of a shard, which must be of these operators."""
    return from_sections(chain, read_container(data))


def from_sections(chain: ChainRuntime, saved_sections: Iterable[Section]) -> ChainState:
    """Read the state of a shard from its sections, of an earlier version of its operators too.

    Raises:
        StateError: It is of other operators.
    """
    own, *sections = saved_sections
    names = _names(chain)
    shared = ChainState(
        (),
        {(stream, origin): time for stream, origin, time in own.facts["watermarks"]},
        frozenset((stream, origin) for stream, origin in own.facts["idle"]),
        {each.operator: _event_table(each) for each in sections if each.kind == EVENTS},
        _completeness(own.facts),
        progresses=_progresses(own.facts),
    )
    if own.facts.get("version", 1) != chain.spec.context.versions.number:
        of_operators = {
            name: [s for s in sections if s.operator == name and s.kind in {OPERATOR, PATTERN}]
            for name in own.facts["operators"]
        }
        return EarlierState(own.facts, of_operators, shared).changed_to(chain)
    if own.facts["operators"] != names:
        raise StateError(
            f"the saved state is of the operators {', '.join(own.facts['operators'])}, now "
            f"they are {', '.join(names)}; go on with the operators as they were, or start "
            "with a new checkpoint"
        )
    saved: dict[str, list[Section]] = {name: [] for name in names}
    for section in sections:
        if section.kind in {OPERATOR, PATTERN}:
            saved[section.operator].append(section)
    operators = tuple(map(operator_state, chain.operators, saved.values()))
    return replace(shared, operators=operators, samples=_samples(chain, sections))


def shrink_chain(state: ChainState) -> ChainState:
    """Give the memory back of patterns that had many more partial matches once."""
    operators = (
        replace(each, states=tuple(map(shrink, each.states))) for each in state.operators
    )
    samples = {
        stream: held if held.shadow is None else replace(held, shadow=shrink(held.shadow))
        for stream, held in state.samples.items()
    }
    return replace(state, operators=tuple(operators), samples=samples)


def _event_table(section: Section) -> EventTable:
    old = np.frombuffer(section.body, np.int64, section.facts["earlier"]).copy()
    return EventTable(decode_table(section.body[old.nbytes :]), old, section.facts["start"])


def _sample_sections(
    chain: ChainRuntime, state: ChainState, *, with_gaps: bool
) -> Iterator[Section]:
    matchers = _matchers(chain)
    for stream, held in state.samples.items():
        name = str(stream.operator)
        if held.shadow is not None:
            section = pattern_section(matchers[stream], held.shadow, name, with_gaps=with_gaps)
            yield replace(section, kind=SHADOW, name=stream.name)
        for results in (held.recent, held.before):
            arrays = np.array([getattr(results.counts, each) for each in _COUNTED], np.int64)
            facts = {
                "recent": results is held.recent,
                "since": results.since,
                "until": results.until,
                "heavy": results.heavy,
            }
            yield Section(COUNTS, name, stream.name, facts, arrays.tobytes())


_COUNTED = [each.name for each in fields(SampleCounts)]


def _samples(chain: ChainRuntime, sections: Iterable[Section]) -> dict[Stream, PatternSample]:
    samples: dict[Stream, PatternSample] = {}
    matchers = _matchers(chain)
    for section in sections:
        stream = Stream(section.name, section.operator)
        held = samples.get(stream, PatternSample())
        if section.kind == SHADOW:
            samples[stream] = replace(held, shadow=match_state(matchers[stream], section))
        elif section.kind == COUNTS:
            arrays = np.frombuffer(section.body, np.int64).reshape(len(_COUNTED), -1).copy()
            facts = section.facts
            results = ResultCounts(
                facts["since"], facts["until"], SampleCounts(*arrays), facts["heavy"]
            )
            recent, before = (
                (results, held.before) if facts["recent"] else (held.recent, results)
            )
            samples[stream] = PatternSample(held.shadow, recent, before)
    return samples


def _matchers(chain: ChainRuntime) -> dict[Stream, Matcher]:
    return {
        stream: matcher
        for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True)
        for stream, matcher in zip(spec.outputs, operator.matchers, strict=True)
    }


def _completeness_facts(completeness: Completeness) -> dict[str, Any]:
    """Write what is known of protected closures, if there are any."""
    if not completeness.histories and not completeness.open:
        return {}
    histories = {
        str(stream): [history.starts.tolist(), history.shares.tolist()]
        for stream, history in completeness.histories.items()
    }
    thresholds = [[str(e.stream), e.batch, e.since, e.share] for e in completeness.open]
    return {"histories": histories, "open_thresholds": thresholds}


def _completeness(facts: Mapping[str, Any]) -> Completeness:
    histories = {
        parse_stream(name): ThresholdHistory(np.array(starts, np.int64), np.array(shares))
        for name, (starts, shares) in facts.get("histories", {}).items()
    }
    thresholds = facts.get("open_thresholds", ())
    still_open = (OpenThreshold(parse_stream(name), *rest) for name, *rest in thresholds)
    return Completeness(histories, tuple(still_open))


def _progress_facts(progresses: Progresses) -> dict[str, Any]:
    """Write what came of other shards by channels, if there are any."""
    if not progresses:
        return {}
    rows = []
    for (stream, origin), progress in progresses.items():
        still_open = [
            [
                number,
                each.of,
                sorted(each.there),
                each.update.watermark,
                each.update.idle,
                each.update.steps,
            ]
            for number, each in progress.open.items()
        ]
        rows.append([stream, origin, progress.done, still_open])
    return {"channels": rows}


def _progresses(facts: Mapping[str, Any]) -> Progresses:
    progresses = {}
    for name, origin, done, still_open in facts.get("channels", ()):
        batches = {
            number: OpenBatch(
                of, frozenset(there), WatermarkUpdate(parse_stream(name), origin, *update)
            )
            for number, of, there, *update in still_open
        }
        progresses[name, origin] = ChannelProgress(done, batches)
    return progresses


def _names(chain: ChainRuntime) -> list[str]:
    return [spec.name for spec in chain.spec.placement.operators]
