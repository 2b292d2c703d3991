"""The state of a shard of a new number of shards, from those of all shards before.

Keys go to other shards when their number changes. A new shard takes of each old one the partial
matches and the waiting events of its keys. Old shards are not equally far: so what each is
behind is matched first, by itself, and what that finds is emitted by the new shard. Then all
parts have the same watermark, and are joined.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from shedlight.engines.spark.codec.event_refs import EventTable
from shedlight.engines.spark.step.advance import (
    OnOutput,
    StepResult,
    advance,
    operator_watermarks,
    stream_watermarks,
)
from shedlight.engines.spark.step.chain import ChainRuntime, ChainState
from shedlight.engines.spark.step.completeness import Completeness
from shedlight.engines.spark.step.parts import WatermarkUpdate
from shedlight.engines.spark.step.saved import from_bytes
from shedlight.engines.spark.support.batch_plan import BatchPlan
from shedlight.engines.spark.support.placement import EarlierShards
from shedlight.errors import StateError
from shedlight.graph import Stream
from shedlight.matching.jit import Array
from shedlight.matching.operators.cep_operator import (
    CepOperator,
    OperatorState,
    operator_keys,
)
from shedlight.matching.operators.reorder import NEVER, DedupState, ReorderBuffer
from shedlight.matching.state.divide import join_states, select_keys
from shedlight.shedding.thresholds import ThresholdHistory, least_of

Choose = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How a chain is divided anew."""

    chain: ChainRuntime  # as it is now
    before: EarlierShards  # how it was divided before
    states: Sequence[ChainState]  # of its shards then

    def state_of(
        self, shard: int, plan: BatchPlan | None, on_output: OnOutput | None = None
    ) -> tuple[ChainState, Sequence[StepResult]]:
        """Give the state of a shard, and what was found on the way to it, part by part."""
        if self.chain.is_single_shard and len(self.states) == 1:
            (state,) = self.states
            updates = self._updates(level=False)
            watermarks = {(str(u.stream), u.origin): u.watermark for u in updates}
            idle = {(str(u.stream), u.origin) for u in updates if u.idle}
            joined = {**state.watermarks, **watermarks}
            return replace(state, watermarks=joined, idle=state.idle | idle), ()
        shards = self.chain.spec.placement.shards
        number, mine = len(shards), shard - shards.start
        updates = self._updates(level=True)
        parts, results = [], []
        for index, state in enumerate(self.states):
            part = _part_of(
                self.chain,
                state,
                lambda hashes: hashes % number == mine,
                with_totals=index % number == mine,
            )
            part, result = advance(self.chain, part, {}, updates, plan, on_output)
            parts.append(part)
            results.append(result)
        return _joined(self.chain, parts), results

    def _updates(self, *, level: bool) -> list[WatermarkUpdate]:
        """Give the watermark of each origin of now by all that shards knew before.

        With `level` it is at least that of the operators that read the stream.
        """
        origins = self.before.origins
        known = [stream_watermarks(origins, s.watermarks, s.idle) for s in self.states]
        updates = []
        for stream, numbers in self.chain.spec.origins.items():
            watermark = max(of_streams[stream] for of_streams, _ in known)
            if level:
                watermark = max([watermark, *self._reached(stream)])
            is_idle = all(stream in idle for _, idle in known)
            updates += [WatermarkUpdate(stream, n, watermark, is_idle) for n in numbers]
        return updates

    def _reached(self, stream: Stream) -> Iterator[int]:
        """Say how far the operators that read a stream are, and how far it is by its events."""
        for state in self.states:
            operators = self.chain.spec.placement.operators
            for spec, each in zip(operators, state.operators, strict=True):
                if stream in spec.inputs:
                    yield each.reorder_buffer.watermark
                    yield each.reorder_buffer.dedup[spec.inputs.index(stream)].watermark


def read_division(chain: ChainRuntime, folder: Path) -> Division:
    """Read the states of the shards that a chain had before, in a folder of its node.

    Raises:
        StateError: There are none, or one is damaged or missing.
    """
    before = chain.spec.earlier
    if before is None:
        raise RuntimeError("the chain has always had these shards")
    paths = [folder / before.folder / str(shard) for shard in before.shards]
    return Division(chain, before, [from_bytes(chain, _read_file(path)) for path in paths])


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StateError(
            f"{path} cannot be read ({error.strerror}); put it back as it was, "
            "or start with a new checkpoint"
        ) from error


def _part_of(
    chain: ChainRuntime, state: ChainState, choose: Choose, *, with_totals: bool
) -> ChainState:
    """Give the part of a state that belongs to some keys."""
    operators = tuple(
        _operator_part(operator, each, choose, with_totals=with_totals)
        for operator, each in zip(chain.operators, state.operators, strict=True)
    )
    return replace(state, operators=operators, samples={})


def _operator_part(
    operator: CepOperator, state: OperatorState, choose: Choose, *, with_totals: bool
) -> OperatorState:
    buffer = state.reorder_buffer
    ((hashes, _),) = operator_keys(operator, buffer.buffer).values()
    waiting = buffer.buffer.filter(pa.array(choose(hashes))).combine_chunks()
    nothing = (0,) * len(buffer.late)
    return replace(
        state,
        reorder_buffer=replace(
            buffer,
            buffer=waiting,
            late=buffer.late if with_totals else nothing,
            duplicates=buffer.duplicates if with_totals else nothing,
        ),
        states=tuple(
            select_keys(matcher, each, choose, with_totals=with_totals)
            for matcher, each in zip(operator.matchers, state.states, strict=True)
        ),
    )


def _joined(chain: ChainRuntime, parts: Sequence[ChainState]) -> ChainState:
    """Join parts that are equally far; the unshed sample begins anew."""
    watermarks: dict[tuple[str, int], int] = {}
    for part in parts:
        for origin, watermark in part.watermarks.items():
            watermarks[origin] = max(watermark, watermarks.get(origin, NEVER))
    return ChainState(
        tuple(
            _joined_operator(operator, [part.operators[number] for part in parts])
            for number, operator in enumerate(chain.operators)
        ),
        watermarks,
        frozenset.intersection(*(part.idle for part in parts)),
        _joined_tables(parts),
        _joined_completeness([part.completeness for part in parts]),
    )


def _joined_operator(operator: CepOperator, parts: Sequence[OperatorState]) -> OperatorState:
    buffers = [part.reorder_buffer for part in parts]
    buffer = ReorderBuffer(
        pa.concat_tables([each.buffer for each in buffers]).combine_chunks(),
        tuple(map(_joined_ids, *(each.dedup for each in buffers))),
        max(each.watermark for each in buffers),
        tuple(map(_total, *(each.late for each in buffers))),
        tuple(map(_total, *(each.duplicates for each in buffers))),
    )
    states = tuple(
        join_states(matcher, [part.states[number] for part in parts])
        for number, matcher in enumerate(operator.matchers)
    )
    return OperatorState(buffer, operator.no_types, states)


def _total(*numbers: int) -> int:
    return sum(numbers)


def _joined_ids(*parts: DedupState) -> DedupState:
    """Join the ids that are remembered: whose key an id is of is not known."""
    ids = np.concatenate([part.ids for part in parts])
    times = np.concatenate([part.times for part in parts])
    rows = np.unique(np.column_stack([ids, times]), axis=0)
    watermark = max(part.watermark for part in parts)
    return DedupState(watermark, np.ascontiguousarray(rows[:, :2]), rows[:, 2].copy())


def _joined_tables(parts: Sequence[ChainState]) -> Mapping[str, EventTable]:
    """Give tables without events: in chains with several shards nothing refers to any."""
    tables = {}
    for name, table in parts[0].event_tables.items():
        start = max(part.event_tables[name].start for part in parts)
        tables[name] = EventTable(table.events.slice(0, 0), start=start)
    return tables


def _joined_completeness(parts: Sequence[Completeness]) -> Completeness:
    """Take for whole what was whole in every part."""
    streams = {stream for part in parts for stream in part.histories}
    histories = {
        stream: least_of(part.histories.get(stream, ThresholdHistory()) for part in parts)
        for stream in streams
    }
    return Completeness(histories, tuple(dict.fromkeys(o for part in parts for o in part.open)))


def steps_on_the_way(
    chain: ChainRuntime, state: ChainState, results: Sequence[StepResult]
) -> Iterator[tuple[str, int, str]]:
    """Give what was kept upstream of operators, as others need it: with their watermarks."""
    watermarks = operator_watermarks(chain, state)
    for result in results:
        for operator, steps in result.steps.items():
            yield operator, watermarks[operator], steps
