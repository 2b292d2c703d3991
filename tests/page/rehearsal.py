"""A run without an engine: the model says what flows, the controller decides, the log is real.

Two sources, three nodes. The load of the second source triples after a while, so that its node
has to shed. It takes about a second, and is the same every time.
"""

from dataclasses import replace

from shedlight.control.assessment import keep_arrays
from shedlight.control.controller import Memory, decide
from shedlight.control.observation import Observation
from shedlight.control.override import apply_override, current_values
from shedlight.engines.spark.control.event_log import (
    BatchRecorder,
    RunLog,
    override_record,
)
from shedlight.engines.spark.control.loop import micro_batch_settings
from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.engines.spark.control.override_store import OverrideOutcome, OverrideWatcher
from shedlight.engines.spark.shed.type_catalog import TypeCatalog
from shedlight.engines.spark.source.arrival import ArrivalStats
from shedlight.engines.spark.step.metrics import OperatorMetrics, PatternMetrics, ShardMetrics
from shedlight.engines.spark.support.arrival_sketch import ArrivalSketch
from shedlight.engines.spark.support.checkpoint import LOCK
from shedlight.graph import Stream
from shedlight.model.build import build_model
from shedlight.model.rates import predict
from shedlight.model.snapshot import MicroBatchCosts, Snapshot
from shedlight.runlog.decisions import decision_record
from shedlight.runlog.records import run_header
from tests.engines.applications import paper_application

BEGAN = 1_800_000_000.0
"""When it begins, in seconds since 1970."""
BOUND = 4.0
FIXED, READING, CARRYING = 0.3, 1e-6, 2e-6
SECONDS = {"Q21": 60e-6, "Q22": 120e-6}
OTHERS = 20e-6
EVERY = 2
"""Seconds from one observation to the next."""
BUSY, QUIET = 20_000.0, 4_000.0
"""Events per second of the second source."""


def rehearsed_application():
    """Give the application of the paper with a bound that micro-batches can keep."""
    application = paper_application()
    nodes = dict(application.nodes)
    nodes["edge-2"] = replace(nodes["edge-2"], bound=BOUND)
    sinks = dict(application.sinks)
    sinks["k4"] = replace(sinks["k4"], weight=2.0)
    return replace(application, nodes=nodes, sinks=sinks)


class Rehearsal:
    """A run that is given how many events come, second by second.

    Args:
        folder: Its checkpoint.

    Attributes:
        clock: In seconds since 1970.
        memory: What its controller remembers.
    """

    def __init__(self, folder, clock=BEGAN):
        application = rehearsed_application()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / LOCK).touch()
        self.folder, self.clock, self.number, self.forced_reason = folder, clock, 0, ""
        self.memory = Memory(application=application, settings=micro_batch_settings())
        self.log, self.overrides = RunLog(self.path), OverrideWatcher(folder)
        self.recorder = BatchRecorder()
        self.log.write(run_header(application, self.clock, version="0.1.0"))
        self._heed()

    @property
    def path(self):
        """The log."""
        return self.folder / "log.jsonl"

    def second(self, rate):
        """Let a second pass in which so many events of the second source come."""
        self._heed()
        model = build_model(self.memory.application, _snapshot(rate))
        keep = keep_arrays(model, self.memory.shares)
        rates = predict(model, keep, ["edge-2"])
        self.clock += 1.0
        latencies = {}
        for node in model.nodes:
            batch, latencies[node] = self._batch(model, node, rates)
            active = (1 + bool(keep), 1.0) if node == "edge-2" else (None, None)
            self.log.write(self.recorder.record(batch, _known(model, node), *active))
        if self.number % EVERY == 0:
            self._decide(model, rates, latencies)
        self.number += 1

    def _heed(self):
        override = self.overrides.new()
        if override is not None:
            application = apply_override(rehearsed_application(), override)
            self.memory = replace(self.memory, application=application)
            self.forced_reason = f"as was asked for, {override}"
            outcome = OverrideOutcome(self.clock, current_values(application))
            self.log.write(override_record(outcome))

    def _decide(self, model, rates, latencies):
        seen = Observation(
            time=self.clock,
            interval=float(EVERY),
            arrivals=_arrivals(model, rates),
            kept={p.stream: _kept(model, p, rates) for p in _patterns(model)},
            outputs=dict(rates.outputs),
            processing_time={p.stream: _seconds(p.stream.name) for p in _patterns(model)},
            partial_matches=dict.fromkeys(rates.outputs, 5.0),
            busy={"edge-2": _work(model, "edge-2", rates)},
            latency=latencies,
            micro_batch={node: MicroBatchCosts(FIXED, READING) for node in model.nodes},
            transport=dict.fromkeys(model.nodes, CARRYING),
        )
        self.memory, decision = decide(
            self.memory, seen, clock=lambda: 0.0, forced_reason=self.forced_reason
        )
        self.forced_reason = ""
        self.log.write(decision_record(decision, self.memory))
        self.log.write_planning_input(self.memory)

    def _batch(self, model, node, rates):
        """Make the micro-batch of a node for the second that passed; give its latency too."""
        took = min(0.95, FIXED + _work(model, node, rates))
        end, wait = self.clock * 1e6, 1.5e6 * took
        times = (end - 1.8 * wait,) * 2 + (end - 1.5 * wait,) * 10 + (end - wait,) * 88
        arrived, metrics, kept_arrivals = {}, {}, {}
        for operator in model.operators_on(node):
            for stream, types in _sent(operator, rates).items():
                number = sum(types.values())
                arrived[operator.name, stream] = ArrivalStats(number, 1, round(end), types)
            patterns = {
                p.stream.name: _pattern_metrics(model, p, rates) for p in operator.patterns
            }
            metrics[operator.name] = OperatorMetrics(0, 0, 0, 0, patterns)
            number = sum(  # what several patterns keep is kept once
                max(p.kept.get(label, 0) for p in patterns.values()) for label in operator.types
            )
            if number:
                kept_arrivals[operator.name] = ArrivalSketch(number, end - wait, times)
        batch = MicroBatchReport(
            node=node,
            number=self.number,
            start=self.clock - took,
            seconds=took,
            arrived=arrived,
            kept_arrivals=kept_arrivals,
            shards=(ShardMetrics(0, took, 10_000, metrics),),
        )
        return batch, 1.5 * took


def rehearse(folder, quiet=15, busy=45):
    """Rehearse a run that has to shed in the end; its log is left open."""
    run = Rehearsal(folder)
    for rate, seconds in ((QUIET, quiet), (BUSY, busy)):
        for _ in range(seconds):
            run.second(rate)
    return run


def _snapshot(rate):
    types = ("type=0", "type=1", "type=2", "type=3")
    parts = (0.4, 0.3, 0.2, 0.1)
    first = dict(zip(types, (2_500.0,) * 4, strict=True))
    second = {one: rate * part for one, part in zip(types, parts, strict=True)}
    joined = {
        Stream(f"Q{i}{j}", f"w{i}"): {f"source=Q{i}{j}": 1.0} for i in (1, 2) for j in (1, 2)
    }
    return Snapshot(rates={Stream("s1"): first, Stream("s2"): second} | joined)


def _sent(operator, rates):
    """Say how many events of each type, by number, an operator is sent by each input."""
    sent = dict(operator.sources)
    sent |= {str(s): rates.outputs[s] * by for s, by in operator.feeds.items()}
    return {
        stream: dict(enumerate(by.round().astype(int).tolist())) for stream, by in sent.items()
    }


def _pattern_metrics(model, pattern, rates):
    """Say what a pattern did in a second."""
    return PatternMetrics(
        kept={label: round(rate) for label, rate in _kept(model, pattern, rates).items()},
        seconds=_seconds(pattern.stream.name) * float(rates.kept[pattern.stream].sum()),
        found=round(rates.outputs[pattern.stream]),
        partial_matches=5,
        evicted=0,
        dropped=0,
    )


def _patterns(model):
    return [p for one in model.operators.values() for p in one.patterns]


def _seconds(name):
    return SECONDS.get(name, OTHERS)


def _work(model, node, rates):
    """Say how busy a node is with what is kept."""
    return sum(
        _seconds(p.stream.name) * float(rates.kept[p.stream].sum())
        for one in model.operators_on(node)
        for p in one.patterns
    )


def _kept(model, pattern, rates):
    types = model.operators[str(pattern.stream.operator)].types
    kept = rates.kept[pattern.stream].tolist()
    return {types[use]: v for use, v in zip(pattern.demand.uses, kept, strict=True)}


def _arrivals(model, rates):
    found = {}
    for name, one in model.operators.items():
        here = {Stream(source): by for source, by in one.sources.items()}
        here |= {stream: rates.outputs[stream] * by for stream, by in one.feeds.items()}
        found[name] = {
            stream: dict(zip(one.types, by.tolist(), strict=True))
            for stream, by in here.items()
        }
    return found


def _known(model, node):
    operators = model.operators_on(node)
    return {
        operator.name: TypeCatalog(
            tuple(operator.types),
            {
                p.stream: tuple(index in p.demand.uses for index in range(len(operator.types)))
                for p in operator.patterns
            },
        )
        for operator in operators
    }
