"""An operator of a chain, as events are shed for it in the JVM."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from shedlight.engines.spark.shed.cell_limits import HEAD, CellLayout, group_entries
from shedlight.engines.spark.shed.plan_column import SampledPatterns, ShedPatterns
from shedlight.engines.spark.shed.strata_limits import bits_at
from shedlight.engines.spark.shed.type_catalog import Catalogs, TypeCatalog
from shedlight.engines.spark.source.arrival import TYPE
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.keep_flags import flag_names, flag_streams
from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.graph import OperatorSpec, Stream
from shedlight.graph.topology import key_name
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import CepOperator
from shedlight.shedding.shedder import EPOCH_WINDOWS

LIMITS = "#limits"  # the column of the limits of an event's cell
CELL = "#cell"  # the column of an event's stratum and type, as one number


@dataclass(frozen=True, slots=True)
class HashedBy:
    """By what a pattern sheds: the key of an event in an epoch of time, or its id."""

    key: tuple[Attribute, ...] = ()  # empty: the id
    epoch: int = 0  # how long one is, in microseconds
    guarded: bool = False  # whether a guard knows the key by its hash


@dataclass(frozen=True, eq=False)
class ShedOperator:
    """An operator of a chain, as events are shed for it."""

    chain: ChainSpec
    spec: OperatorSpec
    operator: CepOperator
    catalog: TypeCatalog

    @property
    def has_shares(self) -> bool:
        """Whether it ever sheds."""
        return has_shares(self.spec, self.chain.context.shares)

    @property
    def counts_events(self) -> tuple[bool, ...]:
        """Whether each pattern has a window of events, so that it counts all of them."""
        windows = [matcher.pattern.within for matcher in self.operator.matchers]
        return tuple(w is not None and w.unit is WindowUnit.EVENTS for w in windows)

    @property
    def relevant(self) -> list[tuple[bool, ...]]:
        """Whether each pattern can take or counts events of a type, by its number."""
        patterns = zip(self.counts_events, self.catalog.relevant.values(), strict=True)
        return [(True,) * len(flags) if counts else flags for counts, flags in patterns]

    @property
    def flag_streams(self) -> tuple[Stream, ...]:
        """The patterns of its keep flags."""
        return flag_streams(self.chain, self.spec)

    @property
    def flags(self) -> list[str]:
        """The columns of its keep flags."""
        return flag_names(self.spec.name, len(self.flag_streams))

    @property
    def sampled(self) -> SampledPatterns | None:
        """The patterns that keep the unshed sample; None: there are none."""
        sample = self.chain.context.sample
        numbers = tuple(sample.numbers_by_key(self.spec).values())
        return SampledPatterns(sample.share, numbers) if numbers else None

    def relevant_sql(self, streams: Iterable[Stream]) -> str:
        """Ask whether an event is relevant to any of some patterns."""
        flags = [self.relevant[self.spec.outputs.index(stream)] for stream in streams]
        relevant = [number for number, each in enumerate(zip(*flags, strict=True)) if any(each)]
        if len(relevant) == len(self.catalog.labels):
            return "true"
        numbers = ", ".join(map(str, relevant))
        return f"{quote_name(TYPE)} IN ({numbers})" if relevant else "false"

    @property
    def key(self) -> tuple[Attribute, ...]:
        """The key of its patterns, where it sheds keys in strata."""
        return self.spec.patterns[self.spec.outputs[0].name].partition_by

    @cached_property
    def hashed(self) -> tuple[HashedBy, ...]:
        """By what each flag is decided; where keys are shed in strata, by two hashes alike."""
        if self.catalog.by_strata:
            return (HashedBy(self.key, self._epoch(self.key)),) * len(self.flag_streams)
        return tuple(map(self._hashed_by, self.flag_streams))

    def _hashed_by(self, stream: Stream) -> HashedBy:
        shares = self.chain.context.shares.get(stream)
        key = self.spec.patterns[stream.name].partition_by
        if shares is None or not shares.by_key or not key:
            return HashedBy()
        guard = self.chain.context.guards.get(stream)
        if guard is not None and guard.epoch:
            return HashedBy(key, guard.epoch, guarded=True)
        return HashedBy(key, self._epoch(key))

    def _epoch(self, key: tuple[Attribute, ...]) -> int:
        return EPOCH_WINDOWS * self.chain.context.windows.get(key_name(key), 1)

    @cached_property
    def layout(self) -> CellLayout:
        """Where the limits of a cell are."""
        outputs = [self.spec.outputs.index(stream) for stream in self.flag_streams]
        relevant, words = self.relevant, len(self.flags)
        return CellLayout(
            words,
            words * len(self.sampled.by_key) if self.sampled else 0,
            group_entries([relevant[number] for number in outputs], self.hashed),
            tuple(map(bits_at, outputs)) if self.catalog.by_strata else (),
        )

    @property
    def patterns(self) -> ShedPatterns:
        """Its patterns, as limits are made for them."""
        return ShedPatterns(
            self.spec.outputs,
            self.catalog.labels,
            tuple(self.relevant),
            self.layout,
            self.sampled,
        )

    @property
    def cell_start(self) -> str:
        """Where the limits of an event's cell begin, counted from one."""
        cell = CELL if self.catalog.by_strata else TYPE
        return f"{HEAD + 1} + {quote_name(cell)} * {self.layout.size}"


def limit_sql(place: int) -> str:
    """Look up a number of an event's cell."""
    return f"{quote_name(LIMITS)}[{place}]"


def shed_operators(chain: ChainRuntime, catalogs: Catalogs) -> Iterator[ShedOperator]:
    """List the operators of a chain."""
    for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
        yield ShedOperator(chain.spec, spec, operator, catalogs[spec.name])
