"""`shedlight check`: whether an application file is right, and what it means."""

import json
from collections.abc import Iterator
from pathlib import Path

from shedlight.cli.options import ApplicationFile, Json
from shedlight.engines.first_events import first_times
from shedlight.errors import InputError
from shedlight.graph import LoadResult, Source, explain, load_application
from shedlight.graph.closures import find_closures
from shedlight.graph.shedding_notes import closure_values, note_shedding
from shedlight.matching.event_time import TIME_FORMS
from shedlight.model.selectivity.formula import selectivities


def check(application: ApplicationFile, *, as_json_: Json = False) -> None:
    """Check an application file and explain it: event types, automata, graph."""
    loaded = load_application(application)
    if as_json_:
        print(json.dumps(_as_json(loaded, application.parent), indent=2))
    else:
        print(explain(loaded.application, loaded.warnings, selectivities(loaded.application)))
        for line in _first_time_lines(loaded, application.parent):
            print(line)


def _first_time_lines(loaded: LoadResult, folder: Path) -> Iterator[str]:
    """Say what would be made of the times of the first events of each source, if any."""
    lines = []
    for name, source in loaded.application.sources.items():
        try:
            times = first_times(source, folder)
        except InputError as error:
            lines.append(f"  {name}: {error}")
            continue
        for written, read in times:
            shown = f"no time; {TIME_FORMS}" if read is None else read
            lines.append(f"  {name}: {source.time}: {written} -> {shown}")
    if lines:
        yield "\nfirst events"
        yield from lines


def _first_times(source: Source, folder: Path) -> list[dict[str, str | None]]:
    try:
        return [{"written": a, "read": b} for a, b in first_times(source, folder)]
    except InputError:
        return []


def _as_json(loaded: LoadResult, folder: Path) -> dict[str, object]:
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
    sources = {
        name: {
            "format": source.format,
            "path": source.path,
            "first_times": _first_times(source, folder),
        }
        for name, source in application.sources.items()
    }
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
