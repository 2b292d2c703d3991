"""Metrics in the text format of Prometheus, version 0.0.4.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_ESCAPES = {"\\": r"\\", "\n": r"\n", '"': r"\""}


@dataclass(frozen=True, slots=True)
class Sample:
    """A number with its labels; the suffix is for the sums and counts of summaries."""

    value: float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of a metric.

    Attributes:
        name: Of the metric, with its unit.
        kind: `counter`, `gauge` or `summary`.
        help: What it says.
        samples: Possibly none.
    """

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def exposition(families: Iterable[Family]) -> str:
    """Write metrics in the text format.

    Example:
        >>> bound = Family("bound_seconds", "gauge", "The bound.", (Sample(5, {"node": "a"}),))
        >>> print(exposition([bound]), end="")
        # HELP bound_seconds The bound.
        # TYPE bound_seconds gauge
        bound_seconds{node="a"} 5
    """
    lines = []
    for family in families:
        told = family.help.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {family.name} {told}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines += [_line(family.name, sample) for sample in family.samples]
    return "".join(f"{line}\n" for line in lines)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{label}="{_escaped(one)}"' for label, one in sample.labels.items())
    within = f"{{{labels}}}" if labels else ""
    return f"{name}{sample.suffix}{within} {_number(sample.value)}"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))


def _escaped(text: str) -> str:
    whole = text.encode("utf-8", "replace").decode()  # half a surrogate pair is no text
    return "".join(_ESCAPES.get(character, character) for character in whole)
