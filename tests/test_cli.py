"""The command line: what it prints, where, and with which status."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest

from shedlight.cli import main
from shedlight.engines.files import read_events

ROOT = Path(__file__).parent.parent
PAIR = "SELECT a.x WHERE SEQ(a.kind = 'A', b.kind = 'B') WITHIN 5 s"


class Done(NamedTuple):
    """What a call did."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def shedlight(capsys, monkeypatch):
    """Run the command line as the shell would, in this process."""

    def run(*arguments):
        monkeypatch.chdir(ROOT)
        monkeypatch.setattr(sys, "argv", ["shedlight", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        return Done(int(stopped.value.code or 0), *capsys.readouterr())

    return run


def _csv(folder, text, name="events.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def events(tmp_path):
    """Four events in a CSV file."""
    text = "time,kind,x,who\n0,A,1,ann\n1000000,B,2,bob\n2000000,A,,\n3000000,B,4,dan\n"
    return _csv(tmp_path, text)


def test_matches_are_printed_as_a_table(shedlight, events):
    """The whole text, but for the ids of the matches."""
    done = shedlight("match", "--pattern", PAIR, "--input", events)
    lines = re.sub(r"[0-9a-f]{32}", "<id>" + " " * 28, done.stdout).splitlines()
    assert lines == [
        "pattern  time     id                                events  x",
        "P1       1000000  <id>                              [1, 2]  1",
        "P1       3000000  <id>                              [3, 4]  null",
    ]
    assert done.stderr.startswith("4 events, 2 matches in ")
    assert done.returncode == 0


def test_the_same_events_give_the_same_ids(shedlight, events):
    """An id is derived from the pattern's name and the ids of the events."""
    one, other = (shedlight("match", "--pattern", PAIR, "--input", events) for _ in range(2))
    assert one.stdout == other.stdout


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_matches_are_written_to_a_file_and_read_back(shedlight, events, tmp_path, ending):
    """The columns are pattern, time, id, events and what is selected."""
    output = tmp_path / f"matches.{ending}"
    done = shedlight(
        "match", "--pattern", PAIR, "--input", events, "--output", output, "--id", "kind,x,who"
    )
    assert done.returncode == 1
    assert "'x' is null in 1 of 4 events, first in event 3" in done.stderr
    assert not output.exists()

    done = shedlight("match", "--pattern", PAIR, "--input", events, "--output", output)

    assert (done.returncode, done.stdout) == (0, "")
    table = read_events(output)
    assert table.column_names == ["pattern", "time", "id", "events", "x"]
    assert table["time"].to_pylist() == [1_000_000, 3_000_000]


def test_parquet_and_json_lines_are_read_too(shedlight, tmp_path):
    """Timestamps stay timestamps, and several patterns go over one file."""
    table = pa.table(
        {
            "at": pa.array([0, 1_000_000], pa.timestamp("us")),
            "kind": ["A", "B"],
            "x": [1.5, 2.5],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "events.parquet")
    lines = "\n".join(json.dumps(row, default=str) for row in table.to_pylist())
    _csv(tmp_path, lines, "events.jsonl")
    for name in ("events.parquet", "events.jsonl"):
        done = shedlight(
            *("match", "--input", tmp_path / name, "--time", "at"),
            *("--pattern", PAIR, "--pattern", "SELECT a.x WHERE a.kind = 'A'"),
        )
        assert done.returncode == 0, done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["pattern", "P2", "P1"]
        assert "1970-01-01 00:00:01" in done.stdout


def test_late_and_duplicate_events_are_reported(shedlight, tmp_path):
    """Nothing goes without a word."""
    path = _csv(tmp_path, "time,kind,x,n\n5,A,1,1\n3,A,1,2\n6,A,1,1\n7,B,1,3\n")

    done = shedlight("match", "--pattern", PAIR, "--input", path, "--id", "n")

    assert "1 late events were not matched" in done.stderr
    assert "1 duplicates were left out" in done.stderr
    lenient = shedlight(
        "match", "--pattern", PAIR, "--input", path, "--id", "n", "--lateness", "10 us"
    )
    assert "late" not in lenient.stderr


def test_an_application_runs_over_files(shedlight, tmp_path):
    """The example of the paper, over generated events."""
    generate = str(ROOT / "examples" / "paper" / "generate.py")
    call = [sys.executable, generate, str(tmp_path), "--count", "2000", "--seed", "3"]
    subprocess.run(call, check=True)
    inputs = [option for s in ("s1", "s2") for option in ("--input", f"{s}={tmp_path / s}")]

    done = shedlight(
        "match", "examples/paper/app.yaml", *inputs, "--output", tmp_path / "m.parquet"
    )

    assert done.returncode == 0, done.stderr
    found = pyarrow.parquet.read_table(tmp_path / "m.parquet")["pattern"].to_pylist()
    assert set(found) == {"Q11", "Q12", "Q21", "Q22", "Q31", "Q41"}


def test_check_explains_an_application(shedlight):
    """Types, automata and the graph."""
    done = shedlight("check", "examples/paper/app.yaml")
    assert done.returncode == 0
    for text in (
        "type=0, type=1, type=2, type=3",
        "state 1: E2 -> 2",
        "w3 reads w1.Q11, w2.Q21",
    ):
        assert text in done.stdout


BAD_CALLS = {
    "no file": (["--input", "nowhere.csv"], "nowhere.csv: there is no such file or folder"),
    "no column for the time": (["--time", "tme"], "has no column 'tme'; known: "),
    "no column for the id": (["--id", "kindd"], "did you mean 'kind'?"),
    "unknown attribute": (
        ["--pattern", "SELECT a.x WHERE a.knd = 'A'"],
        "line 1, column 18: unknown attribute 'knd'",
    ),
    "wrong kind": (
        ["--pattern", "SELECT a.x WHERE a.kind > 3"],
        "line 1, column 18: `>` compares",
    ),
    "a window of zero": (["--pattern", PAIR.replace("5 s", "0 s")], "window"),
    "an output of no known form": (["--output", "matches.xlsx"], "cannot tell the format"),
}


@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_input_is_one_clear_error(shedlight, events, name):
    """On standard error, without a traceback, status 1."""
    options, message = BAD_CALLS[name]
    call = {"--pattern": PAIR, "--input": str(events)}
    call.update(zip(options[::2], options[1::2], strict=True))
    done = shedlight("match", *(word for pair in call.items() for word in pair))
    assert message in done.stderr
    assert done.stderr.startswith("shedlight: ")
    assert "Traceback" not in done.stderr
    assert (done.stdout, done.returncode) == ("", 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("time,kind,x\n", ""),
        ("time,kind,x\n1,A,1\n,A,1\n", "'time' is null in 1 of 2 events, first in event 2"),
        ("time,kind,x\nsoon,A,1\n", "has string; a timestamp or a number is needed"),
        ("time,kind\n1,A\n", "unknown attribute 'x'"),
        ("time,kind,x\n1,A\n", "cannot be read as csv"),
    ],
)
def test_bad_files_are_one_clear_error(shedlight, tmp_path, text, message):
    """An empty file, no events, null and unreadable times, a missing column, a broken row."""
    done = shedlight("match", "--pattern", PAIR, "--input", _csv(tmp_path, text))
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == (1 if message else 0)


@pytest.mark.parametrize(
    "call",
    [
        ["match"],
        ["mach"],
        ["match", "--limit", "none"],
        ["match", "app.yaml", "--pattern", PAIR],
    ],
)
def test_a_call_that_is_not_understood_has_status_2(shedlight, call):
    """Usage goes to standard error."""
    done = shedlight(*call)
    assert (done.stdout, done.returncode) == ("", 2)
    assert "Usage" in done.stderr


def test_the_commands_of_the_readme_print_what_it_says():
    """Each `$` line of the console blocks is run; what follows it is its output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        for call in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, output = _split(call)
            words = (
                [sys.executable, "-m", "shedlight.cli"]
                if command[0] == "shedlight"
                else ["cat"]
            )
            done = subprocess.run(
                words + command[1:], capture_output=True, text=True, cwd=ROOT, check=True
            )
            assert done.stdout == output


def _split(call):
    """Split a call from its output: it ends where its quotes are closed."""
    lines = call.splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        try:
            return shlex.split("".join(lines[:end])), "".join(lines[end:])
        except ValueError:
            continue
    raise AssertionError(call)
