"""Options of `shedlight run` that the application file may have: who wins."""

import pytest
import typer

from shedlight.cli.run_options import check_once, check_watch, with_on_start, with_run_options
from shedlight.graph import OnStart, load_application
from tests.graph.applications import SMALL

FILE = f"run: {{shards: 4, trigger: 1 s, restarts: 2}}\n{SMALL}"


def test_the_command_line_wins_over_the_file():
    """What neither says is left to the engine."""
    application = load_application(FILE).application

    told = with_run_options(application, "auto", None, trigger="300 ms", retention="1 min")

    assert application.run.given == {"shards": 4, "trigger": 1.0, "restarts": 2}
    assert told.run.given == {"trigger": 0.3, "restarts": 2, "retention": 60.0}
    assert with_run_options(application, "8", 0, trigger=None).run.given == {
        "shards": 8,
        "trigger": 1.0,
        "restarts": 0,
    }


@pytest.mark.parametrize(
    ("shards", "trigger", "problem"),
    [
        ("two", None, "--shards must be auto or a whole number from 1 on, got 'two'"),
        ("0", None, "--shards must be auto or a whole number from 1 on, got '0'"),
        (None, "0 s", "--trigger must be longer than zero, got '0 s'"),
        (None, "soon", "--trigger "),
    ],
)
def test_what_is_not_understood(shards, trigger, problem):
    """The option is named."""
    with pytest.raises(typer.BadParameter) as error:
        with_run_options(load_application(FILE).application, shards, None, trigger=trigger)

    assert str(error.value.message).startswith(problem)


def test_how_to_start_is_one_of_three_words():
    """Any other is named, and the three are."""
    application = load_application(FILE).application
    assert with_on_start(application, None) == application
    assert with_on_start(application, "Catch up").run.on_start is OnStart.CATCH_UP
    with pytest.raises(typer.BadParameter) as error:
        with_on_start(application, "later")
    told = "--on-start must be catch up, shed or skip, got 'later'"
    assert str(error.value.message) == told


def test_how_often_to_look_means_nothing_where_all_is_read_at_once():
    """The number of shards does."""
    check_once(trigger=None, delivery_interval=None)
    with pytest.raises(typer.BadParameter, match="--delivery-interval is for a run that goes"):
        check_once(trigger=None, delivery_interval="1 s")


def test_an_application_is_watched_only_with_a_local_checkpoint():
    """Elsewhere it cannot change; that is said before the run begins."""
    check_watch(None)
    check_watch("file:/state/run")
    with pytest.raises(
        typer.BadParameter, match="and hdfs://host/run is an address; leave out"
    ):
        check_watch("hdfs://host/run")
