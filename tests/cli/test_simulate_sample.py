"""What `shedlight simulate` says of the unshed sample."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from shedlight.cli.main import app
from tests.sampled_runs import keyed_events

FILE = """\
name: keyed
sources: {{s: {{format: parquet, path: s.parquet, time: time, id: n}}}}
nodes: {{edge: {{bound: 2 s}}}}
operators:
  w:
    node: edge
    input: s
    patterns:
      P: SELECT a.key WHERE SEQ(a.type = 0, b.type = 1) WITHIN 5 s PARTITION BY key
sinks:
  pairs: {{input: w.P, format: parquet, path: out}}
unshed_sample: {share}
"""


@pytest.fixture
def simulate(tmp_path: Path) -> Callable[..., str]:
    """Simulate 20,000 events of 2,000 keys at twice the capacity, with a sample."""
    pq.write_table(
        keyed_events(np.random.default_rng(1), 20_000, 2_000, 40.0), tmp_path / "s.parquet"
    )

    def run(share: str, *options: str) -> str:
        file = tmp_path / "app.yaml"
        file.write_text(FILE.format(share=share))
        times = ("--processing-time", "w.P=2ms", "--load", "2", "--interval", "5s")
        done = CliRunner().invoke(app, ["simulate", str(file), *times, *options])
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def test_the_estimates_are_printed(simulate):
    """As a table and as JSON."""
    text = simulate("10%")
    value = json.loads(simulate("10%", "--json"))
    said = value["unshed_sample"]["pairs"]
    assert said["keys"] >= 50
    assert 0 < said["recall"]["low"] < said["recall"]["value"] < said["recall"]["high"] < 1
    assert "unshed sample of 10 % of the keys, with 95 % intervals\n" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("  pairs ")]
    assert rows[-1][1:3] == [str(said["keys"]), f"{said['recall']['value']:.1%}"]


def test_without_a_sample_nothing_is_said(simulate):
    """And where the shedder chooses event by event there is none."""
    assert "unshed sample" not in simulate("0")
    assert "unshed sample" not in simulate("10%", "--shedder", "utility")


def test_what_is_not_known_is_said(simulate):
    """Of 2 keys or so nothing is."""
    text = simulate("0.1%")
    assert "of the sample's keys have results, 50 are needed" in text
