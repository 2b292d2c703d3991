"""The command line: what it prints, where, and with which status."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet
import pytest

from shedlight.cli.main import main
from shedlight.engines.event_files import read_events
from shedlight.matching.event_time import read_event_times

ROOT = Path(__file__).parents[2]
PAIR = "SELECT a.x WHERE SEQ(a.type = 'A', b.type = 'B') WITHIN 5 s"


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
        output, errors = capsys.readouterr()
        said = errors.splitlines(keepends=True)
        errors = "".join(line for line in said if not line.startswith("compiling the matcher"))
        return Done(int(stopped.value.code or 0), output, errors)

    return run


def _csv(folder, text, name="events.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def events(tmp_path):
    """Four events in a CSV file."""
    text = "time,type,x,who\n0,A,1,ann\n1000000,B,2,bob\n2000000,A,,\n3000000,B,4,dan\n"
    return _csv(tmp_path, text)


def test_matches_are_printed_as_a_table(shedlight, events):
    """The whole text, but for the ids of the matches."""
    done = shedlight("match", "--pattern", PAIR, "--input", events)
    lines = re.sub(r"[0-9a-f]{32}", "<id>" + " " * 28, done.stdout).splitlines()
    assert lines == [
        "pattern  time                  id                                events  x",
        "P1       1970-01-01T00:00:01Z  <id>                              [1, 2]  1",
        "P1       1970-01-01T00:00:03Z  <id>                              [3, 4]  null",
    ]
    assert done.stderr.startswith("4 events, 2 matches in ")
    assert done.returncode == 0


def test_what_timed_out_is_printed_instead_of_the_matches(shedlight, events):
    """In the same columns; the second pair is too far apart."""
    slow = PAIR.replace("5 s", "0.5 s")
    done = shedlight("match", "--pattern", slow, "--input", events, "--timed-out")
    lines = re.sub(r"[0-9a-f]{32}", "<id>" + " " * 28, done.stdout).splitlines()
    assert lines == [
        "pattern  time                    id                                events  x",
        "P1       1970-01-01T00:00:00.5Z  <id>                              [1]     1",
        "P1       1970-01-01T00:00:02.5Z  <id>                              [3]     null",
    ]
    assert done.stderr.startswith("4 events, 2 timed out in ")
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
        "match", "--pattern", PAIR, "--input", events, "--output", output, "--id", "type,x,who"
    )
    assert done.returncode == 1
    assert "'x' is null in 1 of 4 events, first in event 3" in done.stderr
    assert not output.exists()

    done = shedlight("match", "--pattern", PAIR, "--input", events, "--output", output)

    assert (done.returncode, done.stdout) == (0, "")
    table = read_events(output)
    assert table.column_names == ["pattern", "time", "id", "events", "x"]
    assert read_event_times(table["time"]).values.tolist() == [1_000_000, 3_000_000]


def test_parquet_and_json_lines_are_read_too(shedlight, tmp_path):
    """Timestamps stay timestamps, and several patterns go over one file."""
    table = pa.table(
        {
            "at": pa.array([0, 1_000_000], pa.timestamp("us")),
            "type": ["A", "B"],
            "x": [1.5, 2.5],
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "events.parquet")
    lines = "\n".join(json.dumps(row, default=str) for row in table.to_pylist())
    _csv(tmp_path, lines, "events.jsonl")
    for name in ("events.parquet", "events.jsonl"):
        done = shedlight(
            *("match", "--input", tmp_path / name, "--time", "at"),
            *("--pattern", PAIR, "--pattern", "SELECT a.x WHERE a.type = 'A'"),
        )
        assert done.returncode == 0, done.stderr
        assert [line.split()[0] for line in done.stdout.splitlines()] == ["pattern", "P2", "P1"]
        assert "1970-01-01T00:00:01Z" in done.stdout


def test_late_and_duplicate_events_are_reported(shedlight, tmp_path):
    """Nothing goes without a word."""
    path = _csv(tmp_path, "time,type,x,n\n5,A,1,1\n3,A,1,2\n6,A,1,1\n7,B,1,3\n")

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
    "no column for the id": (["--id", "typee"], "did you mean 'type'?"),
    "unknown attribute": (
        ["--pattern", "SELECT a.x WHERE a.knd = 'A'"],
        "line 1, column 18: unknown attribute 'knd'",
    ),
    "wrong data type": (
        ["--pattern", "SELECT a.x WHERE a.type > 3"],
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
        ("time,type,x\n", ""),
        ("time,type,x\n1,A,1\n,A,1\n", "'time' is null in 1 of 2 events, first in event 2"),
        (
            "time,type,x\nsoon,A,1\n",
            "'time' is no time in 1 of 1 events, first in event 1: 'soon'",
        ),
        ("time,type\n1,A\n", "unknown attribute 'x'"),
        ("time,type,x\n1,A\n", "line 2 cannot be parsed as CSV"),
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


def test_matches_are_lines_of_json_for_machines(shedlight, events):
    """All of them, whatever the limit; what is said besides goes elsewhere."""
    done = shedlight("match", "--pattern", PAIR, "--input", events, "--json", "--limit", "1")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["time"], one["events"], one["x"]) for one in found] == [
        ("1970-01-01T00:00:01.000000Z", [1, 2], 1),
        ("1970-01-01T00:00:03.000000Z", [3, 4], None),
    ]


def test_what_was_understood_is_json_for_machines(shedlight):
    """Sources, nodes, patterns with their functions, sinks and warnings."""
    done = shedlight("check", "examples/paper/app.yaml", "--json")
    said = json.loads(done.stdout)
    assert said["nodes"] == {
        "edge-1": {"bound": None, "percentile": None},
        "edge-2": {"bound": 3.0, "percentile": None},
        "core": {"bound": None, "percentile": None},
    }
    assert said["operators"]["w2"]["patterns"]["Q21"]["matches_per_second"] == (
        "min(type=0 / 2, type=1)"
    )
    assert said["operators"]["w2"]["patterns"]["Q21"]["closure"] is None
    assert said["sinks"]["sink1"] == {"input": "w3.Q31", "timed_out": False, "weight": 1.0}
    assert said["warnings"] == []
    done = shedlight("check", "examples/cluster/app.yaml", "--json")
    patterns = {
        name: pattern
        for operator in json.loads(done.stdout)["operators"].values()
        for name, pattern in operator["patterns"].items()
    }
    assert patterns["CrashLoop"]["closure"]["shed"] == "by key"
    assert patterns["CrashLoop"]["notes"]["watches"] == "events, for a NOT"
    assert "counts" in patterns["Squeezed"]["notes"]


# ---------------------------------------------------------------------------------------------
# Help, status, completion.

VERBS = [
    "new",
    "check",
    "match",
    "why",
    "simulate",
    "plan",
    "doctor",
    "run",
    "control",
    "recover",
    "serve",
]
VERBS += ["report", "completion"]


def test_the_help_tells_the_story_in_the_order_in_which_it_happens(shedlight):
    """A line per verb, none cut short; and what to type first."""
    done = shedlight("--help")
    listed = re.findall(r"^  (\w+)  +([A-Z].+)$", done.stdout, re.MULTILINE)
    assert [verb for verb, _ in listed] == VERBS
    assert all(text.endswith(".") and not text.endswith("...") for _, text in listed)
    assert "Start:      shedlight new shop && cd shop\n" in done.stdout
    assert done.returncode == 0


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(shedlight, verb):
    """On standard output, with status 0."""
    done = shedlight(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Usage: shedlight {verb}" in done.stdout


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"doctor"}))
def test_a_verb_without_its_argument_is_not_understood(shedlight, verb):
    """Status 2, and nothing on standard output."""
    done = shedlight(verb)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"new", "plan", "doctor", "completion"}))
def test_a_file_that_is_not_there_could_not_be_done(shedlight, verb):
    """Status 1, and one sentence that names it."""
    needed = {"recover": ["--output", "missed.csv"]}
    done = shedlight(verb, "no/such/file.yaml", *needed.get(verb, []))
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"shedlight: [^\n]*no/such/file[^\n]*\n", done.stderr)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_a_script_for_each_shell(shell):
    """It has the shell ask the command."""
    done = completed({}, "completion", shell)
    assert f"_SHEDLIGHT_COMPLETE=complete_{shell}" in done


def test_bash_takes_the_script():
    """It defines a function, and has it called for the command."""
    script = completed({}, "completion", "bash") + "\ncomplete -p shedlight"
    done = subprocess.run(
        ["/bin/bash", "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "complete -o default -F _shedlight_completion shedlight\n"


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("shedlight re", {"recover", "report"}),
        ("shedlight run --sh", {"--shards", "--shedder"}),
        ("shedlight run --shedder ", {"global", "local", "none"}),
        ("shedlight new shop --example f", {"fraud"}),
    ],
)
def test_verbs_options_and_values_are_completed(words, offered):
    """As bash asks for it: the words so far, and the number of the one at the end."""
    asked = {
        "_SHEDLIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    assert set(completed(asked).split()) == offered


def completed(environment, *arguments):
    """Ask the installed command, for it looks at how it was called."""
    command = Path(sys.executable).with_name("shedlight")
    return subprocess.run(
        [command, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
