"""A run whose JVM is gone starts again, but not for ever."""

import pytest

from shedlight.cli.restarts import run_with_restarts
from shedlight.engines.spark.session.preflight import SessionError, SessionLostError

LOST = "Spark's JVM was killed by SIGKILL"


def dying(*seconds):
    """Make attempts that last so long and end with the JVM, before one that ends well."""
    lasting, now = [*seconds], [0.0]

    def attempt():
        if not lasting:
            return "done"
        now[0] += lasting.pop(0)
        raise SessionLostError(LOST)

    return attempt, lambda: now[0]


def test_it_starts_again_and_says_so(capsys):
    """A sentence for each time."""
    assert run_with_restarts(*_with(5, dying(1, 1))) == "done"
    assert capsys.readouterr().err == (
        f"{LOST}; starting again from the checkpoint, 1 of 5\n"
        f"{LOST}; starting again from the checkpoint, 2 of 5\n"
    )


def test_after_five_times_in_a_row_it_ends():
    """With what to do."""
    with pytest.raises(SessionError) as error:
        run_with_restarts(*_with(5, dying(*[1] * 6)))

    assert str(error.value) == (
        f"{LOST} 6 times in a row; see what killed it: the system does if memory is short "
        "(--conf spark.driver.memory=... is what the JVM may have)"
    )


def test_a_minute_in_between_counts_anew():
    """So a run of weeks is not ended by what happens once a day."""
    assert run_with_restarts(*_with(1, dying(1, 61, 61, 61))) == "done"
    with pytest.raises(SessionError):
        run_with_restarts(*_with(1, dying(61, 1)))


def test_no_restart_at_all():
    """As one may ask for."""
    with pytest.raises(SessionError, match="killed by SIGKILL; see what"):
        run_with_restarts(*_with(0, dying(1)))


def _with(restarts, made):
    attempt, clock = made
    return attempt, restarts, clock
