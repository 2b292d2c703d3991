"""Operators, and whole applications, over tables that come in pieces.

What is found is what `tables.py` finds in all pieces together, but a piece can be forgotten
when it is matched. Of several sources the one that is furthest behind in time gives the next
piece, so that little waits for the others; an operator downstream gets the watermark of its
upstream, so that it waits for nothing that cannot come any more.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from shedlight.engines.event_pieces import EventPieces
from shedlight.engines.tables import (
    EVENT_TIME,
    Result,
    prepare_source,
    result_of,
    split_malformed,
    with_declared_times,
)
from shedlight.errors import InputError
from shedlight.graph import Application, OperatorSpec, Source, Stream, operator_order
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    Masks,
    build_operator,
    new_operator_state,
    schema_of,
    step_operator,
)
from shedlight.matching.operators.reorder import FOREVER, NEVER, StreamInput
from shedlight.matching.operators.step import ReadyBatch
from shedlight.matching.output.complex_events import EVENTS, ID, TIME

OnPiece = Callable[[], None]


class OperatorRun:
    """An operator over pieces: its state, and what it has found.

    Patterns that `began` at a time see no events from before it.
    """

    def __init__(
        self, operator: CepOperator, began: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        names = {matcher.name for matcher in operator.matchers}
        self._began = {name: time for name, time in began.items() if name in names}
        self._operator, self._state = operator, new_operator_state(operator)
        self._ready = 0
        self._found: dict[str, list[pa.Table]] = {m.name: [] for m in operator.matchers}
        self._timed_out: dict[str, list[pa.Table]] = {
            m.name: [] for m in operator.matchers if m.timed_out
        }

    @property
    def watermark(self) -> int:
        """The time before which all complex events are out."""
        return self._state.reorder_buffer.watermark

    def step(
        self,
        arrivals: Mapping[int, pa.Table],
        ended: frozenset[int] = frozenset(),
        watermarks: Sequence[int] | None = None,
    ) -> Mapping[str, pa.Table]:
        """Match what arrived, and give the complex events of it; see `step_operator`."""
        self._state, outcome = step_operator(
            self._operator, self._state, arrivals, ended, self._masks, watermarks
        )
        self._ready += outcome.ready
        pairs = (
            (self._found, outcome.complex_events),
            (self._timed_out, outcome.timed_out),
        )
        for all_, new in pairs:
            for name, table in new.items():
                if len(table) or not all_[name]:
                    all_[name].append(table)
        return outcome.complex_events

    def _masks(self, ready: ReadyBatch) -> Masks:
        return {name: ready.time >= time for name, time in self._began.items()}

    def result(self) -> Result:
        """Put together what was found."""
        found = {name: pa.concat_tables(tables) for name, tables in self._found.items()}
        over = {name: pa.concat_tables(tables) for name, tables in self._timed_out.items()}
        return result_of(self._state, found, self._ready, over)


def run_pieces(
    operator: CepOperator, pieces: Iterable[pa.Table], on_piece: OnPiece = lambda: None
) -> Result:
    """Run an operator of one input over a table in pieces; `on_piece` is called after each."""
    run, events = OperatorRun(operator), 0
    for piece in pieces:
        with _counting_events_before(events):
            run.step({0: piece})
        events += len(piece)
        on_piece()
    run.step({}, frozenset({0}))
    return run.result()


@contextmanager
def _counting_events_before(events: int) -> Iterator[None]:
    """Let errors, which number the events of a piece, say how many came before it."""
    try:
        yield
    except InputError as error:
        if not events:
            raise
        raise InputError(f"after {events:,} events: {error}") from error


@dataclass(slots=True, eq=False)
class _SourceRun:
    """A source whose pieces are being matched."""

    source: Source  # with the columns that patterns need besides
    given: Source  # as it was given
    pieces: Iterator[pa.Table]
    watermark: int = NEVER  # the latest time so far
    events: int = 0  # how many there were
    malformed: list[pa.Table] | None = None  # of those that may be left out

    def next_piece(self) -> pa.Table | None:
        """Give the next events, or None at the end; malformed records are put aside."""
        table = next(self.pieces, None)
        if table is None:
            self.watermark = FOREVER
            return None
        number = len(table)
        if self.malformed is not None:
            table, malformed = split_malformed(self.given, table)
            self.malformed.append(malformed)
        _, events = prepare_source(self.source, table)
        self.events += number
        if len(events):
            self.watermark = max(self.watermark, pc.max(events[EVENT_TIME]).as_py())
        return events


def run_application_pieces(
    application: Application,
    sources: Mapping[str, EventPieces],
    *,
    timed_out: bool = False,
    on_malformed: Callable[[pa.Table], None] = lambda _: None,
    on_piece: OnPiece = lambda: None,
    began: Mapping[str, int] = MappingProxyType({}),
) -> Mapping[str, Result]:
    """Run an application over sources in pieces; `on_piece` is called after each of them.

    For the other arguments, what it gives, and errors see `tables.run_application`. Malformed
    records are given when all is done. Patterns that `began` at a time see no events from
    before it.

    Raises:
        PiecesDifferError: The sources have to be read as a whole.
    """
    given = application.sources
    application, inputs = _with_source_columns(application, sources)
    runs = {
        name: _SourceRun(
            source,
            given[name],
            sources[name].tables,
            malformed=None if source.malformed is None else [],
        )
        for name, source in application.sources.items()
    }
    specs = operator_order(application)
    operators = _build_operators(application, specs, inputs, began, timed_out=timed_out)
    watermarks = {Stream(name): run.watermark for name, run in runs.items()}
    while any(run.watermark < FOREVER for run in runs.values()):
        name = min(runs, key=lambda each: runs[each].watermark)
        with _counting_events_before(runs[name].events):
            events = runs[name].next_piece()
            arrived = {} if events is None else {Stream(name): events}
            if events is None:
                watermarks[Stream(name)] = FOREVER
            _step_all(specs, operators, arrived, watermarks)
        if events is not None:
            on_piece()
    for run in runs.values():
        for records in run.malformed or ():
            on_malformed(records)
    return {name: run.result() for name, run in operators.items()}


def _step_all(
    specs: Iterable[OperatorSpec],
    operators: Mapping[str, OperatorRun],
    arrived: dict[Stream, pa.Table],
    watermarks: dict[Stream, int],
) -> None:
    """Match what arrived, operator by operator; what they emit arrives downstream."""
    for spec in specs:
        run = operators[spec.name]
        arrivals = {n: arrived[s] for n, s in enumerate(spec.inputs) if s in arrived}
        found = run.step(
            arrivals, watermarks=[watermarks.get(stream, NEVER) for stream in spec.inputs]
        )
        for stream in spec.outputs:
            arrived[stream] = found[stream.name].drop_columns([EVENTS])
            watermarks[stream] = run.watermark


_Inputs = dict[Stream, tuple[StreamInput, pa.Schema]]


def _with_source_columns(
    application: Application, sources: Mapping[str, EventPieces]
) -> tuple[Application, _Inputs]:
    """Check an application against the columns of its sources; say what these are prepared."""
    from shedlight.graph import with_schemas  # noqa: PLC0415  # patterns alone do not need it

    empty = {name: pieces.schema.empty_table() for name, pieces in sources.items()}
    declared = {
        name: with_declared_times(application.sources[name], table)
        for name, table in empty.items()
    }
    application = with_schemas(
        application, {name: schema_of(table.schema) for name, table in declared.items()}
    )
    inputs: _Inputs = {}
    for name, source in application.sources.items():
        stream, table = prepare_source(source, empty[name])
        inputs[Stream(name)] = stream, table.schema
    return application, inputs


def _build_operators(
    application: Application,
    specs: Iterable[OperatorSpec],
    inputs: _Inputs,
    began: Mapping[str, int],
    *,
    timed_out: bool,
) -> Mapping[str, OperatorRun]:
    """Build operators, upstream first; adds what they emit to the inputs."""
    runs = {}
    for spec in specs:
        reported = {s.name for s in spec.outputs if timed_out or s in application.timed_out}
        operator = build_operator(
            [inputs[stream] for stream in spec.inputs], spec.patterns, timed_out=reported
        )
        runs[spec.name] = OperatorRun(operator, began)
        # no events give the columns of what is emitted
        emitted = OperatorRun(operator).step({}, watermarks=[NEVER] * len(spec.inputs))
        for stream in spec.outputs:
            schema = emitted[stream.name].drop_columns([EVENTS]).schema
            inputs[stream] = StreamInput(str(stream), (ID,), TIME), schema
    return runs
