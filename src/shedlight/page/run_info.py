"""What is run, as the page draws it."""

from typing import Any

from shedlight.page.log_follower import LogView
from shedlight.report.format import sanitize


def run_info(seen: LogView, *, live: bool, can_apply: bool) -> dict[str, Any]:
    """Say what is run; what the log does not say is empty.

    Args:
        seen: What was read of its log.
        live: Whether it is under way.
        can_apply: Whether bounds and weights can be changed.
    """
    tally, header = seen.tally, seen.tally.header
    return {
        "application": sanitize(header.application, 100) if header else "",
        "version": sanitize(header.version, 100) if header else "",
        "started": header.time if header else None,
        "timed": header.timed if header else True,
        "live": live,
        "can_apply": can_apply,
        "nodes": {name: {"bound": one.bound} for name, one in tally.nodes.items()},
        "sources": list(header.sources) if header else [],
        "operators": {
            name: {
                "node": one.node,
                "inputs": list(one.inputs),
                "patterns": list(one.patterns),
            }
            for name, one in (header.operators if header else {}).items()
        },
        "sinks": {
            name: {"input": stream, "weight": tally.weights.get(name, 1.0)}
            for name, stream in (header.sinks if header else {}).items()
        },
    }
