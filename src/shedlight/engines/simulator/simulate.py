"""An application in virtual time: between control instants, operator by operator.

Events queue at a node and its server takes them one by one; what an event takes is the sum of
what the patterns take that keep it, and nothing if none does. Where a node has a bound by
percentile, events are admitted one by one too. A complex event arrives
downstream when the event that completed it leaves. Or nodes work as on Spark, by micro-batches.
Matching is that of every other engine.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from shedlight.engines.simulator.api import Choosing, Counts, Interval, Policy, Stratifying
from shedlight.engines.simulator.closure_state import AppliedThreshold
from shedlight.engines.simulator.micro_batch_run import MicroBatchRun
from shedlight.engines.simulator.prepare import prepare_run
from shedlight.engines.simulator.queue_run import QueueRun
from shedlight.engines.simulator.run import OnServed, SimulationOptions, SimulationRun
from shedlight.engines.simulator.service import Service, ServiceTimes
from shedlight.graph import Application, Stream
from shedlight.model.spark_costs import Costs
from shedlight.shedding.estimate import SinkEstimate
from shedlight.shedding.shares import Shares


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """The outcome of a simulation.

    Attributes:
        intervals: What happened, interval by interval.
        sinks: The complex events that reached each sink, without what is selected.
        shares: The active shares of each interval.
        counts: What became of the events at each operator.
        thresholds: For which keys the patterns of protected closures were whole.
        outputs: All complex events of each pattern, and what timed out, with the ids of their
            events; empty if nobody asked.
        estimates: What the unshed sample says of each sink; empty without one.
        masked: The complex events that the shares leave of the sample's keys; empty if nobody
            asked.
    """

    intervals: tuple[Interval, ...]
    sinks: Mapping[str, pa.Table]
    shares: tuple[Shares, ...]
    counts: Mapping[str, Counts]
    thresholds: tuple[AppliedThreshold, ...] = ()
    outputs: Mapping[Stream, pa.Table] = field(default_factory=dict)
    estimates: Mapping[str, SinkEstimate] = field(default_factory=dict)
    masked: Mapping[Stream, pa.Table] = field(default_factory=dict)


def simulate(  # noqa: PLR0913  # what a simulation is of
    application: Application,
    tables: Mapping[str, pa.Table],
    service: Service,
    *,
    interval: float = 1.0,
    shares: Shares | None = None,
    policy: Policy | None = None,
    seed: int = 0,
    pace: float = 1.0,
    squeeze: bool = True,
    on_served: OnServed | None = None,
    with_outputs: bool = False,
    with_admission: bool = True,
    unshed_sample: float = 0.0,
    costs: Mapping[str, Costs] | None = None,
) -> Simulation:
    """Simulate an application over the events of its sources.

    Args:
        application: The application.
        tables: The events of each source.
        service: How long processing takes.
        interval: From one control instant to the next, in seconds.
        shares: What patterns keep at first; None: everything.
        policy: Decides what they keep later; None: the same all the time.
        seed: Of the processing times.
        pace: How many times as fast events come as their times say.
        squeeze: Whether their times are brought together by the pace, so that windows hold
            more of them; else they only arrive faster, and match as they are.
        on_served: Called with the events that were processed, how long they waited and took.
        with_outputs: Whether to give the complex events of all patterns.
        with_admission: Whether nodes with a bound by percentile shed the events that would
            take longer.
        unshed_sample: The share of keys that is never shed, to estimate what is lost by; where
            a shedder chooses events one by one, there is no sample.
        costs: What a micro-batch costs at each node besides the processing times, where nodes
            work as on Spark; None: they take events one by one.

    Raises:
        InputError: A table lacks a column, or has null ids or times.
        ValueError: The interval or the pace is not above zero, or nodes with micro-batches
            are to choose events one by one.
    """
    if not (interval > 0 and pace > 0):
        raise ValueError(f"an interval and a pace must be above zero, got {interval}, {pace}")
    prepared = prepare_run(application, tables, pace, squeeze=squeeze)
    times = ServiceTimes(service, seed)
    choosers = policy.choosers if isinstance(policy, Choosing) else {}
    with_strata = isinstance(policy, Stratifying) and policy.sheds_in_strata
    options = SimulationOptions(
        on_served=on_served,
        with_outputs=with_outputs,
        with_admission=with_admission and costs is None,
        with_pressure=policy is not None,
        unshed_sample=0.0 if choosers else unshed_sample,
        with_strata=with_strata,
    )
    if costs is None:
        run: SimulationRun = QueueRun(prepared, times, options)
    elif choosers:
        raise ValueError("micro-batches keep shares of types and keys, not chosen events")
    else:
        run = MicroBatchRun(prepared, times, options, costs)
    run.set_choosers(choosers)
    intervals, history = [], []
    active: Shares = shares or {}
    for builder in run.intervals(interval):
        done = run.advance(builder, active)
        intervals.append(done)
        history.append(active)
        if policy is not None and not builder.is_last:
            active = policy.decide(done) or active
    return Simulation(
        tuple(intervals),
        run.sinks(),
        tuple(history),
        run.counts(),
        tuple(run.closure_state.thresholds),
        _joined(run.outputs),
        run.estimates(seed),
        _joined(run.masked),
    )


def _joined(tables: Mapping[Stream, list[pa.Table]]) -> Mapping[Stream, pa.Table]:
    return {stream: pa.concat_tables(each) for stream, each in tables.items()}
