"""Logs of runs that never were: with names that mean no good, and of any size."""

import random

from tests.runlog.logs import batch, decision, header, text

HOSTILE = "<img src=x onerror=alert(1)>"


def hostile_log(path, bad=HOSTILE):
    """Write the log of a run in which every name and every text means no good."""
    path.write_text(hostile_text(bad), encoding="utf-8")


def hostile_text(bad):
    """Write the records of a start of such a run."""
    patterns = {
        f"{bad}.{bad}": {"kept": 60, "seconds": 0.1, "matches": 3, "partial_matches": 1}
    }
    return text(
        header(
            100.0,
            application=bad,
            version=bad,
            bounds={bad: 2.0},
            sources=[f"src{bad}"],
            operators={bad: {"node": bad, "inputs": [f"src{bad}"], "patterns": [bad]}},
            sinks={bad: f"{bad}.{bad}"},
        ),
        batch(101.0, bad, kept=60, patterns=patterns, unshed_sample={bad: {"unknown": bad}}),
        decision(
            102.0,
            f"because {bad}",
            replanned=True,
            statuses={bad: "SHEDDING"},
            advice={bad: f"do {bad}"},
            loads={bad: 0.9},
            shares={f"{bad}.{bad}": {f"type = '{bad}'": 0.5}},
        ),
    )


def large_log(path, number, nodes, seed=4):
    """Write the log of an application with so many operators, joined at random."""
    draw = random.Random(seed)
    operators: dict[str, dict[str, object]] = {}
    streams: list[str] = []
    for place in range(number):
        inputs = [draw.choice(["clicks", "orders"])] if place < nodes else []
        inputs += draw.sample(streams[-12:], min(len(streams), draw.choice((1, 1, 2))))
        name = draw.choice(("late-parcels", "spikes", "returns-within-a-week", "op")) + str(
            place
        )
        home = f"node-{place * nodes // number}"
        operators[name] = {
            "node": home,
            "inputs": list(dict.fromkeys(inputs)),
            "patterns": ["P"],
        }
        streams.append(f"{name}.P")
    sinks = {f"sink-{place}": stream for place, stream in enumerate(streams[-6:])}
    rows = [
        header(
            100.0,
            bounds={f"node-{n}": 2.0 if n % 2 else None for n in range(nodes)},
            sources=["clicks", "orders"],
            operators=operators,
            sinks=sinks,
        )
    ]
    for second in range(1, 4):
        for node in range(nodes):
            found = {
                f"{name}.P": {"kept": 60, "seconds": 0.1, "matches": draw.randrange(1000)}
                for name, one in operators.items()
                if one["node"] == f"node-{node}"
            }
            recall = {"recall": 1.0, "recall_low": 0.99, "recall_high": 1.0}
            said = dict.fromkeys(sinks, recall)
            rows.append(
                batch(
                    100.0 + second, f"node-{node}", kept=60, patterns=found, unshed_sample=said
                )
            )
    statuses = {f"node-{n}": ("OK", "SHEDDING", "BOUND-AT-RISK")[n % 3] for n in range(nodes)}
    loads = {f"node-{n}": 0.3 + 0.25 * n % 1.3 for n in range(nodes)}
    rows.append(decision(104.0, statuses=statuses, loads=loads, replanned=True))
    path.write_text(text(*rows), encoding="utf-8")
