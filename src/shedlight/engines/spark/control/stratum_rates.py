"""How many events and results strata of keys had, from micro-batches."""

from collections.abc import Iterator

from shedlight.control.observation import StratumObservation
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.shed.type_catalog import TypeCatalog
from shedlight.engines.spark.step.strata_counts import Counts, StrataMetrics
from shedlight.matching.compile.type_labels import OTHER
from shedlight.model.snapshot import ByType
from shedlight.model.stratum_split import REST
from shedlight.shedding.stratum_shares import StrataTable


def shard_metrics(
    report: MicroBatchReport, operator: str
) -> Iterator[tuple[int, StrataMetrics]]:
    """Give what shards say of the strata of an operator's keys, with their numbers."""
    for shard in report.shards:
        metrics = shard.operators.get(operator)
        if metrics is not None and metrics.strata is not None:
            yield shard.shard, metrics.strata


def count_strata(
    report: MicroBatchReport, operator: str, catalog: TypeCatalog, table: StrataTable
) -> dict[str, StratumObservation]:
    """Put together what the JVM and the shards counted of strata, in events."""
    arrivals: dict[str, dict[str, float]] = {}
    kept: dict[str, dict[str, dict[str, float]]] = {}
    outputs: dict[str, dict[str, float]] = {}
    size = len(catalog.labels)
    for (name, _), stats in report.arrived.items():
        if name == operator:
            rest = dict(stats.types)
            for cell, count in stats.cells.items():
                stratum, number = divmod(cell, size)
                label = catalog.labels[number] or OTHER
                _add(arrivals.setdefault(table.names[stratum], {}), {label: count})
                rest[number] -= count
            labelled = catalog.count_labels({n: count for n, count in rest.items() if count})
            _add(arrivals.setdefault(REST, {}), labelled)
    for _, metrics in shard_metrics(report, operator):
        _add_counts(arrivals, metrics.arrivals)
        for pattern, counts in metrics.kept.items():
            _add_counts(kept.setdefault(pattern, {}), counts)
        for pattern, found in metrics.found.items():
            _add(outputs.setdefault(pattern, {}), found)
    return {
        stratum: StratumObservation(
            arrivals.get(stratum, {}),
            {pattern: counts.get(stratum, {}) for pattern, counts in kept.items()},
            {pattern: found.get(stratum, 0.0) for pattern, found in outputs.items()},
        )
        for stratum in table.names
    }


def _add_counts(total: dict[str, dict[str, float]], counts: Counts) -> None:
    for stratum, by_label in counts.items():
        _add(total.setdefault(stratum, {}), by_label)


def _add(total: dict[str, float], more: ByType) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0.0) + number


def strata_rates(
    batches: tuple[MicroBatchReport, ...], span: float
) -> dict[str, dict[str, StratumObservation]]:
    """Give events per second of the strata that the last of some micro-batches has."""
    rates: dict[str, dict[str, StratumObservation]] = {}
    for operator, strata in batches[-1].strata.items():
        rates[operator] = {}
        for stratum in strata:
            arrivals: dict[str, float] = {}
            kept: dict[str, dict[str, float]] = {}
            outputs: dict[str, float] = {}
            for batch in batches:
                seen = batch.strata.get(operator, {}).get(stratum)
                if seen is None:
                    continue
                _add(arrivals, seen.arrivals)
                for pattern, counts in seen.kept.items():
                    _add(kept.setdefault(pattern, {}), counts)
                _add(outputs, seen.outputs)
            rates[operator][stratum] = StratumObservation(
                _per(arrivals, span),
                {pattern: _per(counts, span) for pattern, counts in kept.items()},
                _per(outputs, span),
            )
    return rates


def _per(counts: ByType, span: float) -> ByType:
    return {name: number / span for name, number in counts.items()}
