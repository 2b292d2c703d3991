"""States of patterns and operators as sections of a saved state.

A pattern's section is named by its fingerprint. It has the arrays of the kernels by their names
(the key of a partial match is that of its `key_slot`, two hashes), the stored events, and the
symbols and sets of states in the order in which the arrays number them. An operator's own
section has its reorder buffer and deduplication state. Event types are not saved: a number
means nothing beyond the process that gave it.
"""

from collections.abc import Iterable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from shedlight.errors import StateError
from shedlight.matching.compile.dfa import Symbol, build_tables, explored_subsets
from shedlight.matching.compile.matcher import Matcher
from shedlight.matching.jit import Array
from shedlight.matching.kernel.match_state import MatchState, due_time
from shedlight.matching.kernel.partial_queue import Queues
from shedlight.matching.kernel.records import NONE, PartialMatchRecords
from shedlight.matching.kernel.scan_bindings import Bindings
from shedlight.matching.operators.cep_operator import CepOperator, OperatorState
from shedlight.matching.operators.reorder import DedupState, ReorderBuffer, new_reorder_buffer
from shedlight.matching.state.compact import compact
from shedlight.matching.state.container import Section

OPERATOR, PATTERN = "operator", "pattern"


def operator_sections(
    operator: CepOperator, state: OperatorState, name: str = "", *, with_gaps: bool = False
) -> list[Section]:
    """Save the state of an operator: its own section, and one for each pattern."""
    pairs = zip(operator.matchers, state.states, strict=True)
    patterns = [
        pattern_section(matcher, each, name, with_gaps=with_gaps) for matcher, each in pairs
    ]
    return [_operator_section(operator, state.reorder_buffer, name), *patterns]


def operator_state(operator: CepOperator, sections: Iterable[Section]) -> OperatorState:
    """Read the saved state of an operator from its sections.

    Raises:
        StateError: It is of other inputs, columns or patterns.
    """
    own, *patterns = sections
    if own.facts["inputs"] != input_facts(operator):
        raise _other("inputs", own.facts["inputs"], input_facts(operator))
    buffer = reorder_buffer(own)
    schema = new_reorder_buffer(operator.schema, len(operator.inputs)).buffer.schema
    if not buffer.buffer.schema.equals(schema):
        raise _other("columns", ", ".join(buffer.buffer.schema.names), ", ".join(schema.names))
    names = [section.name for section in patterns]
    now = [matcher.fingerprint for matcher in operator.matchers]
    if sorted(names) != sorted(now):
        raise _other("patterns", "\n         ".join(names), "\n         ".join(now))
    saved = {name: [section for section in patterns if section.name == name] for name in names}
    return OperatorState(
        buffer,
        operator.no_types,
        tuple(match_state(each, saved[each.fingerprint].pop(0)) for each in operator.matchers),
    )


_written_sections: WeakKeyDictionary[MatchState, Section] = WeakKeyDictionary()
"""What was saved of states that are still there; those that no event concerned stay as is."""


def pattern_section(
    matcher: Matcher, state: MatchState, operator: str, *, with_gaps: bool = False
) -> Section:
    """Save the state of a pattern of an operator.

    With gaps, rows of its arrays are where they are, so that little differs from one state to
    the next; without, it is as small as it can be.
    """
    known = _written_sections.get(state)
    wanted = (PATTERN, operator, matcher.fingerprint)
    if known is None or (known.kind, known.operator, known.name) != wanted:
        known = _written_sections[state] = _write_section(
            matcher, state if with_gaps else compact(state), operator
        )
    return known


def _write_section(matcher: Matcher, state: MatchState, operator: str) -> Section:
    groups = (state.records, state.queues, state.bindings)
    arrays = {name: array for group in groups for name, array in group._asdict().items()}
    facts = {
        "symbols": [sorted(symbol) for symbol in state.tables.symbols],
        "explored": explored_subsets(state.tables),
        "subsets": [[region, sorted(members)] for region, members in state.tables.subsets],
        "arrays": {name: [_form(array.dtype), array.shape] for name, array in arrays.items()},
    }
    body = b"".join([*map(_octets, arrays.values()), _written(state.store)])
    return Section(PATTERN, operator, matcher.fingerprint, facts, body)


def match_state(matcher: Matcher, section: Section) -> MatchState:
    """Read the saved state of a pattern."""
    arrays, at = {}, 0
    for name, (form, shape) in section.facts["arrays"].items():
        fields = [tuple(each) for each in form] if isinstance(form, list) else form
        arrays[name] = _read(section.body, at, np.dtype(fields, align=True), shape)
        at += arrays[name].nbytes
    tables = build_tables(
        matcher.automaton,
        map(Symbol, section.facts["symbols"]),
        [(region, frozenset(members)) for region, members in section.facts["subsets"]],
        section.facts["explored"],
    )
    records = PartialMatchRecords(*(arrays[name] for name in PartialMatchRecords._fields))
    records.key_slots["entries"] = NONE  # the index is made anew
    state = MatchState(
        tables,
        records,
        Queues(*(arrays[name] for name in Queues._fields)),
        Bindings(*(arrays[name] for name in Bindings._fields)),
        with_columns(pa.ipc.open_stream(section.body[at:]).read_all(), matcher.store_schema),
        due_time(matcher, records),
    )
    _written_sections[state] = section
    return state


def with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give what was saved the columns of now: what was not there is null."""
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    columns = [
        table[f.name].cast(f.type) if f.name in names else pa.nulls(len(table), f.type)
        for f in schema
    ]
    return pa.table(columns, schema=schema)


def _form(dtype: np.dtype[Any]) -> Any:  # noqa: ANN401  # a name or a list of fields
    fields = dtype.fields
    return [[name, fields[name][0].str] for name in fields] if fields else dtype.str


def _operator_section(operator: CepOperator, buffer: ReorderBuffer, name: str) -> Section:
    facts = {
        "inputs": input_facts(operator),
        "watermark": buffer.watermark,
        "watermarks": [each.watermark for each in buffer.dedup],
        "remembered": [len(each.times) for each in buffer.dedup],
        "late": buffer.late,
        "duplicates": buffer.duplicates,
    }
    ids = [_octets(array) for each in buffer.dedup for array in (each.ids, each.times)]
    return Section(OPERATOR, name, "", facts, b"".join([*ids, _written(buffer.buffer)]))


def input_facts(operator: CepOperator) -> list[list[Any]]:
    """Say what the saved state of an operator depends on of its inputs."""
    return [[each.name, list(each.ids), each.time, each.lateness] for each in operator.inputs]


def reorder_buffer(section: Section) -> ReorderBuffer:
    """Read the reorder buffer and the deduplication state of an operator."""
    facts, dedup, at = section.facts, [], 0
    for watermark, number in zip(facts["watermarks"], facts["remembered"], strict=True):
        ids = _read(section.body, at, np.dtype(np.int64), (number, 2))
        times = _read(section.body, at + ids.nbytes, np.dtype(np.int64), (number,))
        dedup.append(DedupState(watermark, ids, times))
        at += ids.nbytes + times.nbytes
    buffer = pa.ipc.open_stream(section.body[at:]).read_all()
    counts = tuple(facts["late"]), tuple(facts["duplicates"])
    return ReorderBuffer(buffer, tuple(dedup), facts["watermark"], *counts)


def _read(data: bytes, at: int, dtype: np.dtype[Any], shape: Iterable[int]) -> Array:
    size = tuple(shape)
    return np.frombuffer(data, dtype, int(np.prod(size)), at).reshape(size).copy()


def _octets(array: Array) -> memoryview:
    """View an array as bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _written(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _other(what: str, saved: object, now: object) -> StateError:
    return StateError(
        f"the saved state is of other {what}:\n  saved: {saved}\n  now:   {now}\n"
        f"go on with the {what} as they were, or start with a new checkpoint"
    )
