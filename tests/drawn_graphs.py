"""Random applications of one to three levels in which patterns claim absences, and plans."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from shedlight.engines.simulator.api import Interval
from shedlight.graph import Application, Node, OperatorSpec, Sink, Source, Stream
from shedlight.graph.application import build_application
from shedlight.graph.check import check_application
from shedlight.graph.closures import find_closures
from shedlight.language import DataType, parse_pattern
from shedlight.model.model import SheddingWay
from shedlight.shedding.shares import PatternShares, Shares, is_shed_by_key
from shedlight.shedding.stratum_shares import StratumShares

TYPES, KEYS = 5, 3
WINDOWS = ("30 ms", "60 ms", "120 ms")
SCHEMA = {
    "time": DataType.BIGINT,
    "n": DataType.BIGINT,
    "type": DataType.BIGINT,
    "key": DataType.BIGINT,
}
KEYED = ("everywhere", "nowhere", "at the sources", "at the sinks")


def draw_events(rng: random.Random, number: int = 100, seconds: float = 3.4) -> pa.Table:
    """Draw events at different times, in order."""
    times = sorted(rng.sample(range(int(seconds * 1e6)), number))
    return pa.table(
        {
            "time": times,
            "n": range(number),
            "type": [rng.randrange(TYPES) for _ in times],
            "key": [rng.randrange(KEYS) for _ in times],
        },
        pa.schema({name: pa.int64() for name in SCHEMA}),
    )


def draw_application(rng: random.Random, *, in_order: bool = False) -> Application:
    """Draw an application: each level reads the one before, and perhaps the source.

    In order, no node feeds one before it, as it must be on Spark.
    """
    keyed, levels = rng.choice(KEYED), rng.randint(1, 3)
    is_mixed = keyed.startswith("at")  # a node has one key
    below = [Stream("s")]
    operators: list[OperatorSpec] = []
    patterns: list[Stream] = []
    place = 0
    for level in range(levels):
        here: list[Stream] = []
        place = rng.randint(place, level) if in_order else place
        is_keyed = {
            "everywhere": True,
            "nowhere": False,
            "at the sources": level == 0,
            "at the sinks": level == levels - 1,
        }[keyed]
        for number in range(rng.randint(1, 2) if level else 1):
            inputs = list(below)
            if level and rng.random() < 0.3:
                inputs.append(Stream("s"))
            name, by = f"w{level}{number}", " PARTITION BY key" if is_keyed else ""
            texts = {
                f"P{level}{number}{i}": _draw_pattern(
                    rng,
                    inputs,
                    f"p{level}{number}{i}",
                    by,
                    is_last=level == levels - 1,
                )
                for i in range(rng.randint(1, 3))
            }
            spec = OperatorSpec(
                name=name,
                node=f"n{level if is_mixed else place if in_order else rng.randint(0, level)}",
                inputs=tuple(inputs),
                patterns={key: parse_pattern(text).pattern for key, text in texts.items()},
            )
            operators.append(spec)
            here += spec.outputs
        patterns += here
        below = here
    sinks = [_sink(stream, timed_out=False) for stream in patterns]
    windows = {s: each.patterns[s.name].within for each in operators for s in each.outputs}
    late = [stream for stream in patterns if windows[stream] and rng.random() < 0.15]
    sinks += [_sink(stream, timed_out=True) for stream in late]
    source = Source(
        name="s", format="parquet", path="in", time="time", id=("n",), schema=SCHEMA
    )
    nodes = [Node(name=f"n{i}", bound=1.0) for i in range(levels)]
    application = build_application("drawn", [source], nodes, operators, sinks)
    check_application(application)
    return application


def _sink(stream: Stream, *, timed_out: bool) -> Sink:
    name = f"{stream.name}{' late' if timed_out else ''}"
    return Sink(
        name=name.replace(" ", "_"),
        input=stream,
        timed_out=timed_out,
        weight=0.0 if timed_out else 1.0,
        format="parquet",
        path=f"out/{name}",
    )


def _draw_pattern(
    rng: random.Random, inputs: list[Stream], prefix: str, by: str, *, is_last: bool
) -> str:
    """Draw a pattern; what is under NOT is nothing that it takes."""
    words = [f"source = '{each.name}'" for each in inputs if each.operator]
    if any(each.operator is None for each in inputs):
        words += [f"type = {number}" for number in range(TYPES)]
    rng.shuffle(words)
    words = (words * 4)[:4] if len(words) > 1 else words * 4
    first, second, third = (f"{prefix}{name}.{words[i]}" for i, name in enumerate("abc"))
    shapes = ["plain", "pair"]
    if words[1] not in (words[0], words[2]):
        shapes += ["not", "absence", "not", "absence"]
    shapes.append("count")
    shape = rng.choice(shapes)
    window = rng.choice(WINDOWS)
    where = {
        "plain": first,
        "pair": f"SEQ({first}, {second})",
        "not": f"SEQ({first}, NOT({second}), {third})",
        "absence": f"SEQ({first}, NOT({second}))",
        "count": f"SEQ({first}, {second})",
    }[shape]
    if shape == "count":
        window = f"{rng.randint(3, 6)} EVENTS"
    within = "" if shape == "plain" else f" WITHIN {window}"
    # complex events of one time come in the order of their ids, which the checker does not know
    may_reuse = shape != "plain" and is_last
    reuse = " REUSE" if may_reuse and rng.random() < 0.3 else ""
    return f"SELECT {prefix}a.key AS key WHERE {where}{within}{by}{reuse}"


class DrawnPlans:
    """A policy without reason: plans and pressure change at random."""

    def __init__(self, application: Application, rng: random.Random) -> None:
        self._application, self._rng = application, rng
        self._closures = find_closures(application)
        self._active: Shares = {}

    def decide(self, interval: Interval | None) -> Shares:
        """Draw other shares now and then, and the pressure of each node."""
        rng, application = self._rng, self._application
        if rng.random() < 0.3:
            self._active = dict(self._draw(interval))
        pressure = {
            name: rng.choice([1.0, 1.0, 1.0, 0.7, 0.3, 0.0]) for name in application.nodes
        }
        return {
            stream: shares.lower_by(pressure[application.operators[str(stream.operator)].node])
            for stream, shares in self._active.items()
        }

    def _draw(self, _interval: Interval | None) -> Iterator[tuple[Stream, PatternShares]]:
        rng = self._rng
        for spec in self._application.operators.values():
            for stream in spec.outputs:
                by_key = is_shed_by_key(self._application, self._closures, stream)
                share = rng.choice([0.0, 0.3, 0.7, 1.0, 1.0, 1.0])
                names = [f"type={i}" for i in range(TYPES)]
                names += [f"source={s.name}" for s in spec.inputs if s.operator]
                labels = dict.fromkeys(names, share)
                if not by_key:
                    labels |= {name: 1.0 for name in names if rng.random() < 0.7}
                spared = frozenset(names if rng.random() < 0.5 else ())
                yield stream, PatternShares(labels, by_key, spared=spared, default_share=share)


class DrawnStrata(DrawnPlans):
    """The same, and keys are shed in strata: in any way, by any shares."""

    sheds_in_strata = True

    def _draw(self, interval: Interval | None) -> Iterator[tuple[Stream, PatternShares]]:
        for stream, shares in super()._draw(interval):
            names = interval.strata.get(str(stream.operator), ()) if interval else ()
            strata = {name: draw_stratum(shares, self._rng) for name in names}
            yield stream, replace(shares, strata=strata)


def draw_stratum(shares: PatternShares, rng: random.Random) -> StratumShares:
    """Draw what a pattern keeps of a stratum, in any way."""
    drawn = [
        {label: rng.choice([0.0, 0.4, 0.8, 1.0]) for label in shares.shares} for _ in range(3)
    ]
    return StratumShares(rng.choice(list(SheddingWay)), *drawn)
