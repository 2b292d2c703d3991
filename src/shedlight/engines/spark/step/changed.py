"""The state of a shard after the application has changed, from what was saved before.

A pattern that is as it was goes on with its partial matches, one that is gone ends, and one
that is new, or reads one that is, begins: it sees events from a time on that no source had got
to by then, so that nothing is missing that it might have had to see. An operator goes on if a
pattern of it does. The unshed sample begins anew.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState, new_chain_state
from shedlight.engines.spark.step.completeness import Completeness, begin_patterns
from shedlight.engines.spark.step.keep_flags import (
    flag_names,
    flag_streams,
    flag_types,
    own_flags,
)
from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.engines.spark.support.plan_store import WORD
from shedlight.errors import StateError
from shedlight.graph import OperatorSpec, Stream
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    new_operator_state,
)
from shedlight.matching.operators.reorder import ReorderBuffer, new_reorder_buffer
from shedlight.matching.state.container import Section
from shedlight.matching.state.saved import match_state, reorder_buffer, with_columns
from shedlight.shedding.thresholds import BEGINNING


def version_facts(chain: ChainSpec) -> dict[str, Any]:
    """Write down what it takes to go on from a state once the application has changed."""
    context = chain.context
    flags = {
        spec.name: flags
        for spec in chain.placement.operators
        if (flags := own_flags(chain, spec))
    }
    patterns = {spec.name: list(spec.patterns) for spec in chain.placement.operators}
    epochs = {str(stream): guard.epoch for stream, guard in context.guards.items()}
    number = context.versions.number
    return {"version": number, "patterns": patterns, "flags": flags, "epochs": epochs}


@dataclass(frozen=True, slots=True, eq=False)
class EarlierState:
    """A state that was saved before the application changed."""

    facts: Mapping[str, Any]  # `version_facts`, of the application then
    operators: Mapping[str, Sequence[Section]]  # the sections of each operator then
    # what is known of streams from outside, of events that are referred to, and of closures
    shared: ChainState

    @property
    def version(self) -> int:
        """Of which version of the application it is."""
        return int(self.facts["version"])

    def changed_to(self, chain: ChainRuntime) -> ChainState:
        """Give the state that the operators of now go on with.

        Raises:
            StateError: What was saved of a pattern is not of the pattern that goes on.
        """
        specs = zip(chain.spec.placement.operators, chain.operators, strict=True)
        read = {str(stream) for stream in chain.spec.origins}
        shared = self.shared
        return ChainState(
            tuple(self._operator(chain.spec, spec, operator) for spec, operator in specs),
            {origin: t for origin, t in shared.watermarks.items() if origin[0] in read},
            frozenset(origin for origin in shared.idle if origin[0] in read),
            self._event_tables(chain),
            self._completeness(chain.spec),
        )

    def _operator(
        self, chain: ChainSpec, spec: OperatorSpec, operator: CepOperator
    ) -> OperatorState:
        versions, began = chain.context.versions, new_operator_state(operator)
        going_on = [s for s in spec.outputs if not versions.has_changed(s, self.version)]
        if not going_on or spec.name not in self.operators:
            return began
        own, *patterns = self.operators[spec.name]
        saved = dict(zip(self.facts["patterns"][spec.name], patterns, strict=True))
        states = list(began.states)
        for number, (stream, matcher) in enumerate(
            zip(spec.outputs, operator.matchers, strict=True)
        ):
            if stream in going_on:
                section = saved.get(stream.name)
                if section is None or not _is_same(section, matcher.fingerprint):
                    raise _not_saved(stream)
                states[number] = match_state(matcher, section)
        buffer = self._reorder_buffer(chain, spec, operator, own)
        return replace(began, reorder_buffer=buffer, states=tuple(states))

    def _reorder_buffer(
        self, chain: ChainSpec, spec: OperatorSpec, operator: CepOperator, section: Section
    ) -> ReorderBuffer:
        """Read the reorder buffer; its events carry who keeps them, pattern by pattern."""
        buffer = reorder_buffer(section)
        schema = new_reorder_buffer(operator.schema, len(operator.inputs)).buffer.schema
        table = with_columns(buffer.buffer, schema)
        if has_shares(spec, chain.context.shares):
            names = flag_names(spec.name, len(flag_streams(chain, spec)))
            before = self.facts["flags"].get(spec.name, [])
            words = _moved_flags(buffer.buffer, spec, before, own_flags(chain, spec))
            for name, word in zip(names, words, strict=True):
                number = table.column_names.index(name)
                table = table.set_column(number, schema.field(name), word)
        return replace(buffer, buffer=table)

    def _event_tables(self, chain: ChainRuntime) -> Mapping[str, EventTable]:
        tables = dict(new_chain_state(chain).event_tables)
        for name, schema in chain.event_refs.columns.items():
            before = self.shared.event_tables.get(name)
            if before is not None:
                tables[name] = replace(before, events=with_columns(before.events, schema))
        return tables

    def _completeness(self, chain: ChainSpec) -> Completeness:
        """Say which streams were whole: of keys salted by another epoch nothing is known."""
        context, known, before = chain.context, self.shared.completeness, self.facts["epochs"]
        for each in known.open:  # what kept these shares has ended with the change
            if each.stream in context.versions.reached:
                until = context.versions.reached[each.stream]
                known = known.lower(each.stream, each.since, until, each.share)
        known = begin_patterns(replace(known, open=()), context, self.version)
        for stream, guard in context.guards.items():
            if before.get(str(stream), guard.epoch) != guard.epoch and context.guards_shed:
                known = known.lower(stream, BEGINNING, context.versions.reached[stream], 0.0)
        return known


def _is_same(section: Section, fingerprint: str) -> bool:
    """Compare patterns without the columns that are stored: of these, our own may differ."""
    return section.name.rpartition(" [")[0] == fingerprint.rpartition(" [")[0]


def _not_saved(stream: Stream) -> StateError:
    return StateError(
        f"the saved state has nothing of the pattern {stream}, which is to go on as it was; "
        "go on with the application as it was, or start with a new checkpoint"
    )


def _moved_flags(
    events: pa.Table, spec: OperatorSpec, before: Sequence[str], now: Sequence[str]
) -> list[pa.Array]:
    """Give the keep flags of events for the patterns of now; new ones are kept from nothing.

    Events without flags, whose hashes decide, have none.
    """
    names = [n for n in flag_names(spec.name, len(before)) if n in events.column_names]
    words = [events[name].combine_chunks() for name in names]
    moved = [np.zeros(len(events), np.int64) for _ in flag_types(len(now))]
    for number, flag in enumerate(now):
        kept = np.ones(len(events), np.int64)
        if words and flag in before:
            word, bit = divmod(before.index(flag), WORD)
            kept = np.asarray(words[word].fill_null(0).cast(pa.int64())) >> bit & 1
        moved[number // WORD] |= kept << number % WORD
    absent = np.asarray(words[0].is_null()) if words else None
    return [
        pa.array(word, mask=absent).cast(data_type)
        for word, data_type in zip(moved, flag_types(len(now)), strict=True)
    ]
