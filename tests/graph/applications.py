"""A small application as text, and ways to make others from it."""

from pathlib import Path

from shedlight.graph import (
    Application,
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    build_application,
    load_application,
)
from shedlight.language import parse_pattern

PAPER = Path(__file__).parents[2] / "examples" / "paper" / "app.yaml"

SMALL = """\
name: small
sources:
  s1:
    format: parquet
    path: data/s1
    time: ts
    id: [key, ts]
nodes:
  edge: {bound: 3 s}
  core: {}
operators:
  w1:
    node: edge
    input: s1
    patterns:
      A: SELECT E1.key WHERE SEQ(E1.type = 0, E2.type = 1) WITHIN 10 s
      B: SELECT E1.key WHERE E1.type = 2
  w2:
    node: core
    input: [w1.A, w1.B]
    patterns:
      C: SELECT X.key WHERE AND(X.source = 'A', Y.source = 'B') WITHIN 1 min
sinks:
  out: {input: w2.C, format: parquet, path: out}
"""


def edited(*edits: tuple[str, str]) -> str:
    """Change the small application; each edit replaces the first place of a text."""
    text = SMALL
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


def loaded(*edits: tuple[str, str]) -> Application:
    """Load the small application with changes."""
    return load_application(edited(*edits)).application


def stream(text: str) -> Stream:
    """Read `s1` or `w1.A`."""
    operator, dot, name = text.partition(".")
    return Stream(name, operator) if dot else Stream(text)


def graph(*operators: str, sinks: str = "", text: str = "SELECT E WHERE E") -> Application:
    """Make an application of lines such as `w1: s1 s2 -> A B`: name, inputs, patterns.

    Every operator has a node of its own, and all patterns have the same text.
    """
    specs = []
    for line in operators:
        name, _, rest = line.partition(": ")
        inputs, _, patterns = rest.partition(" -> ")
        specs.append(
            OperatorSpec(
                name=name,
                node=f"node-{name}",
                inputs=tuple(map(stream, inputs.split())),
                patterns={each: parse_pattern(text).pattern for each in patterns.split()},
            )
        )
    names = {one.name for spec in specs for one in spec.inputs if one.operator is None}
    return build_application(
        "graph",
        [source(name) for name in sorted(names)],
        [Node(name=spec.node) for spec in specs],
        specs,
        [
            Sink(name=f"to-{one}", input=stream(one), format="parquet", path=one)
            for one in sinks.split()
        ],
    )


def source(name: str, **settings: object) -> Source:
    """Make a source with the settings that a test is not about."""
    plain = {"format": "parquet", "path": f"data/{name}", "time": "ts", "id": ("key",)}
    return Source(name=name, **(plain | settings))  # type: ignore[arg-type]
