"""A parser for the text format of Prometheus, by its grammar and no wider.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r"[a-zA-Z_][a-zA-Z0-9_]*"
VALUE = r'"(?:[^"\\\n]|\\\\|\\"|\\n)*"'
LABELS = rf"{LABEL}={VALUE}(?:,{LABEL}={VALUE})*"
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABELS})?\}})? (\S+)")
HELP = re.compile(rf"# HELP ({NAME}) (?:[^\\\n]|\\\\|\\n)*")
KINDS = {"counter", "gauge", "summary", "histogram", "untyped"}
ENDINGS = {"summary": ("", "_sum", "_count"), "counter": ("",), "gauge": ("",)}
BACK = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def parse(text):
    """Read samples: {(name, ((label, value), ...)): number}; and the kind of each metric."""
    assert text.endswith("\n")
    samples, kinds, told = {}, {}, set()
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            found = HELP.fullmatch(line)
            assert found, line
            name = found[1]
            assert name not in told, f"{name} is told twice"
            told.add(name)
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            assert kind in KINDS
            assert current not in kinds
            kinds[current] = kind
        else:
            key, value = _sample(line)
            assert key not in samples, f"{key} is there twice"
            assert key[0] in {current + e for e in ENDINGS[kinds[current]]}, line
            samples[key] = value
    return samples, kinds


def _sample(line):
    found = SAMPLE.fullmatch(line)
    assert found, line
    name, labels, number = found.groups()
    pairs = re.findall(rf"({LABEL})=({VALUE})", labels or "")
    values = tuple((one, re.sub(r"\\.", lambda m: BACK[m[0]], v[1:-1])) for one, v in pairs)
    assert len({one for one, _ in values}) == len(values)
    return (name, values), float(number)
