"""Applications with protected closures, as models to plan."""

import random
from dataclasses import replace
from typing import Any

from shedlight.graph import Application, Stream, load_application
from shedlight.graph.application import parse_stream
from shedlight.model.build import build_model
from shedlight.model.model import Model
from shedlight.model.snapshot import Snapshot
from shedlight.model.type_index import operator_vocabularies
from tests.drawn_graphs import draw_application

ALARMS = """\
name: alarms
sources:
  s: {format: parquet, path: in, time: ts, id: [n]}
nodes:
  edge: {bound: 1 s}
  core: {}
operators:
  w1:
    node: edge
    input: s
    patterns:
      P: SELECT a.host AS host WHERE SEQ(a.type = 0, b.type = 1) WITHIN 1 s
      Q: SELECT a.host AS host WHERE SEQ(a.type = 2, b.type = 3) WITHIN 1 s
      R: SELECT a.host AS host WHERE SEQ(a.type = 4, b.type = 5) WITHIN 1 s
  w2:
    node: core
    input: [w1.P, w1.Q]
    patterns:
      alarm: SELECT p.host AS host WHERE SEQ(p.source = 'P', NOT(q.source = 'Q')) WITHIN 1 s
sinks:
  alarms: {input: w2.alarm, format: parquet, path: out}
  others: {input: w1.R, format: parquet, path: more}
"""
"""An alarm needs all of Q at a node that is busy with P and R besides."""

ALARM_LOAD: dict[str, dict[str, Any]] = {
    "rates": {
        "s": {
            "type=0": 20,
            "type=1": 20,
            "type=2": 40,
            "type=3": 40,
            "type=4": 40,
            "type=5": 40,
        }
    },
    "processing_time": {"w1.P": 0.002, "w1.Q": 0.015, "w1.R": 0.006},
}


def alarms(*, keyed: bool = False, **sink: object) -> Application:
    """Load the application with settings of the alarms' sink."""
    text = ALARMS.replace("WITHIN 1 s", "WITHIN 1 s PARTITION BY host") if keyed else ALARMS
    settings = "".join(f", {name}: {value}" for name, value in sink.items())
    text = text.replace("path: out}", f"path: out{settings}}}")
    return load_application(text).application


def alarms_model(seconds: float = 0.015, *, keyed: bool = False, **sink: object) -> Model:
    """Build its model at 200 events per second; an event of Q takes so long."""
    times = {parse_stream(name): each for name, each in ALARM_LOAD["processing_time"].items()}
    times[Stream("Q", "w1")] = seconds
    snapshot = Snapshot(rates={Stream("s"): ALARM_LOAD["rates"]["s"]}, processing_time=times)
    return build_model(alarms(keyed=keyed, **sink), snapshot)


def draw_model(rng: random.Random) -> Model:
    """Draw an application with closures and a load that some of its nodes cannot carry."""
    application = draw_application(rng)
    nodes = {
        name: replace(node, bound=rng.uniform(0.5, 5)) if rng.random() < 0.8 else node
        for name, node in application.nodes.items()
    }
    application = replace(application, nodes=nodes)
    streams = [stream for stream in application.streams if stream.operator]
    words = {
        word for each in operator_vocabularies(application).values() for word in each.words
    }
    types = sorted(word for word in words if word.startswith("type="))
    snapshot = Snapshot(
        rates={Stream("s"): {label: rng.uniform(5, 100) for label in types}},
        processing_time={stream: rng.uniform(1e-4, 2e-2) for stream in streams},
    )
    return build_model(application, snapshot)
