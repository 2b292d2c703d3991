"""An operator of a chain, as events are shed for it in the JVM."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shedlight.engines.spark.shed.plan_column import SampledPatterns
from shedlight.engines.spark.shed.strata_limits import HEAD, LOOKED_AT, SAMPLE_AT, CellLayout
from shedlight.engines.spark.shed.type_catalog import Catalogs, TypeCatalog
from shedlight.engines.spark.source.arrival import TYPE
from shedlight.engines.spark.step.chain import ChainRuntime
from shedlight.engines.spark.step.keep_flags import flag_names, flag_streams
from shedlight.engines.spark.support.placement import ChainSpec, has_shares
from shedlight.graph import OperatorSpec, Stream
from shedlight.language.ast.expression import Attribute
from shedlight.language.ast.pattern import WindowUnit
from shedlight.language.eval.spark_sql import quote_name
from shedlight.matching.operators.cep_operator import CepOperator

LIMITS = "#limits"  # the column of the limits of a plan
CELL = "#cell"  # the column of an event's stratum and type, as one number


@dataclass(frozen=True, slots=True, eq=False)
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

    @property
    def layout(self) -> CellLayout | None:
        """Where the numbers of a stratum and type are; None: keys are not shed in strata."""
        if not self.catalog.by_strata:
            return None
        words = len(self.flags)
        samples = words * len(self.sampled.by_key) if self.sampled else 0
        return CellLayout(len(self.flag_streams), words, samples)

    @property
    def sample_start(self) -> int:
        """The first row of limits that is about the unshed sample."""
        layout = self.layout
        return len(self.flags) + 1 + len(self.flag_streams) if layout is None else layout.sample

    @property
    def looked_at(self) -> int:
        """Where in the limits stands below which hash keys are looked at."""
        return self._sample_end if self.layout is None else LOOKED_AT

    @property
    def heavy_sql(self) -> str:
        """Where in the limits heavy hitters begin."""
        if self.layout is None:
            return str(self._sample_end + 1)
        return f"CAST(get({quote_name(LIMITS)}, {SAMPLE_AT}) AS INT)"

    @property
    def _sample_end(self) -> int:
        rows = len(self.flags) * len(self.sampled.by_key) if self.sampled else 0
        return (self.sample_start + rows) * len(self.catalog.labels)

    def limit_sql(self, row: int) -> str:
        """Look up a row of the limits of a plan, for the type of an event."""
        if self.layout is not None:
            place = f"{HEAD + row} + {quote_name(CELL)} * {self.layout.size}"
            return f"get({quote_name(LIMITS)}, {place})"
        start = row * len(self.catalog.labels)
        return f"get({quote_name(LIMITS)}, {start} + {quote_name(TYPE)})"


def shed_operators(chain: ChainRuntime, catalogs: Catalogs) -> Iterator[ShedOperator]:
    """List the operators of a chain."""
    for spec, operator in zip(chain.spec.placement.operators, chain.operators, strict=True):
        yield ShedOperator(chain.spec, spec, operator, catalogs[spec.name])
