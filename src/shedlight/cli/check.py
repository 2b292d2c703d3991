"""`shedlight check`: whether an application file is right, and what it means."""

import json

from shedlight.cli.options import ApplicationFile, Json
from shedlight.graph import LoadResult, explain, load_application
from shedlight.graph.closures import find_closures
from shedlight.graph.shedding_notes import closure_values, note_shedding
from shedlight.model.selectivity.formula import selectivities


def check(application: ApplicationFile, *, as_json_: Json = False) -> None:
    """Check an application file and explain it: event types, automata, graph."""
    loaded = load_application(application)
    if as_json_:
        print(json.dumps(_as_json(loaded), indent=2))
    else:
        print(explain(loaded.application, loaded.warnings, selectivities(loaded.application)))


def _as_json(loaded: LoadResult) -> dict[str, object]:
    application, rates = loaded.application, selectivities(loaded.application)
    notes, closures = note_shedding(application), find_closures(application).by_watcher
    operators = {
        name: {
            "node": spec.node,
            "input": [str(stream) for stream in spec.inputs],
            "patterns": {
                stream.name: {
                    "pattern": str(spec.patterns[stream.name]),
                    "matches_per_second": str(rates[stream]),
                    "closure": closure_values(application, closures[stream])
                    if stream in closures
                    else None,
                    "notes": dict(notes.get(stream, {})),
                }
                for stream in spec.outputs
            },
        }
        for name, spec in application.operators.items()
    }
    sinks = {
        name: {"input": str(sink.input), "timed_out": sink.timed_out, "weight": sink.weight}
        for name, sink in application.sinks.items()
    }
    sources = {n: {"format": s.format, "path": s.path} for n, s in application.sources.items()}
    return {
        "application": application.name,
        "sources": sources,
        "nodes": {
            name: {"bound": node.bound, "percentile": node.percentile}
            for name, node in application.nodes.items()
        },
        "operators": operators,
        "sinks": sinks,
        "warnings": list(loaded.warnings),
    }
