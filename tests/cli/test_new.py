"""`shedlight new`: what it writes works as it is, and it never writes over anything."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from shedlight.cli.main import main
from shedlight.cli.new import Example, sample_events

ROOT = Path(__file__).parents[2]


class Done(NamedTuple):
    """What a call did."""

    status: int
    output: str
    errors: str


@pytest.fixture
def shedlight(capsys, monkeypatch):
    """Run the command line as the shell would, in a folder."""

    def run(*words, folder):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["shedlight", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main()
        output, errors = capsys.readouterr()
        said = errors.splitlines(keepends=True)
        errors = "".join(line for line in said if not line.startswith("compiling the matcher"))
        return Done(int(stopped.value.code or 0), output, errors)

    return run


@pytest.mark.parametrize("example", get_args(Example))
def test_what_is_written_works_as_it_is(shedlight, tmp_path, example):
    """The commands that it names, in the folder that it made."""
    done = shedlight("new", "mine", "--example", example, folder=tmp_path)
    assert done.status == 0
    named = re.findall(r"^  shedlight (.+)$", done.output, re.MULTILINE)
    assert [one.split()[0] for one in named] == ["check", "match", "simulate"]

    check, match, simulate = (
        shedlight(*one.split(), *shorter(one), folder=tmp_path / "mine") for one in named
    )

    assert "\nno warnings\n" in check.output
    assert len(match.output.splitlines()) == 6
    assert load_of(simulate) == pytest.approx(2, rel=0.05)


def test_the_shortest_simulation_works_too(shedlight, tmp_path):
    """With processing times that are measured here, so it may keep the bound or not."""
    shedlight("new", "mine", "--example", "sensors", folder=tmp_path)
    done = shedlight("simulate", "app.yaml", "--load", "2", folder=tmp_path / "mine")
    assert load_of(done) == pytest.approx(2, rel=0.05)


def load_of(done):
    """Find the load of a simulation; with times that vary it is met but nearly."""
    assert done.status == 0, done.errors
    (load,) = re.findall(r"has ([\d.]+) times as much to do as it can", done.output)
    return float(load)


def shorter(command):
    """Do not simulate all of it."""
    return ("--duration", "20 s") if command.startswith("simulate") else ()


def test_the_smallest_is_what_comes_without_a_choice(shedlight, tmp_path):
    """Three files, and the commands of its page are those that are named."""
    done = shedlight("new", "mine", folder=tmp_path)
    assert done.output.startswith(
        "mine: README.md, app.yaml, data/events.csv\nnext:\n  cd mine\n"
    )
    page = (tmp_path / "mine" / "README.md").read_text("utf-8")
    named = re.findall(r"^  (shedlight .+)$", done.output, re.MULTILINE)
    assert re.findall(r"^(shedlight .+?) +#", page, re.MULTILINE) == named


def test_an_example_comes_with_its_events_and_all_its_files(shedlight, tmp_path):
    """Those of the repository, and the data that they need."""
    shedlight("new", "mine", "--example", "fraud", folder=tmp_path)
    there = {path.name: path for path in (tmp_path / "mine").iterdir()}
    assert set(there) == {*_names(ROOT / "examples" / "fraud"), "data"}
    assert [path.name for path in there["data"].iterdir()] == ["payments.csv"]


def _names(folder):
    made = {"data", "out", "matches.csv", "__pycache__"}
    return {path.name for path in folder.iterdir()} - made


def test_an_empty_folder_is_as_good_as_none(shedlight, tmp_path):
    """Also the one that we are in."""
    assert shedlight("new", ".", folder=tmp_path).status == 0
    assert (tmp_path / "app.yaml").exists()


def test_a_folder_with_something_in_it_is_refused(shedlight, tmp_path):
    """With a sentence, and nothing is written."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    done = shedlight("new", "mine", folder=tmp_path)
    assert (done.status, done.output) == (1, "")
    assert done.errors == (
        "shedlight: mine is not empty; name a folder that is, or that does not exist\n"
    )
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_a_file_is_refused(shedlight, tmp_path):
    """It is no folder."""
    (tmp_path / "mine").write_text("")
    done = shedlight("new", "mine", folder=tmp_path)
    assert done.status == 1
    assert "mine is a file; name a folder that is empty or does not exist" in done.errors


def test_a_place_that_cannot_be_written_is_reported(shedlight, tmp_path):
    """The folder would have to be in a file."""
    (tmp_path / "file").write_text("")
    done = shedlight("new", "file/mine", folder=tmp_path)
    assert done.status == 1
    assert done.errors.startswith("shedlight: file/mine: cannot be written: ")


def test_an_unknown_example_is_not_understood(shedlight, tmp_path):
    """Those that there are, are named."""
    done = shedlight("new", "mine", "--example", "weather", folder=tmp_path)
    assert done.status == 2
    assert "sensors" in done.errors


def test_a_name_with_blanks_can_be_pasted(shedlight, tmp_path):
    """The next command quotes it."""
    assert "  cd 'my app'\n" in shedlight("new", "my app", folder=tmp_path).output


def test_the_sample_is_always_the_same():
    """In order of time, and with ids that are distinct."""
    one = sample_events()
    assert one.equals(sample_events())
    times = one["time_ms"].to_pylist()
    assert times == sorted(times)
    assert len(set(one["n"].to_pylist())) == len(one)


def test_an_installed_package_has_all_templates(tmp_path):
    """A wheel, made as for a release."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for example in get_args(Example):
        assert f"shedlight/templates/{example}/app.yaml" in names
        assert f"shedlight/templates/{example}/README.md" in names
