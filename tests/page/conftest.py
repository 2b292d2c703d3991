"""A recorded run, a run under way, and a page of them, without Spark."""

from contextlib import closing, contextmanager

import pytest

from shedlight.engines.spark.support.checkpoint import lock_checkpoint
from shedlight.page.run_view import run_paths
from shedlight.page.server import Address, PageServer
from tests.page.client import TOKEN, to_close
from tests.page.rehearsal import rehearse

__all__ = ["TOKEN", "page_of"]


@pytest.fixture(scope="session")
def recorded_run(tmp_path_factory):
    """Have the checkpoint of a run that is over: log, planning input, a lock not held."""
    run = rehearse(tmp_path_factory.mktemp("recorded") / "state")
    run.log.close()
    return run.folder


@pytest.fixture
def live_run(tmp_path):
    """Have a run under way: its lock is held, and it goes on with each `second`."""
    run = rehearse(tmp_path / "state", quiet=3, busy=12)
    with lock_checkpoint(run.folder), closing(run.log):
        yield run


@pytest.fixture(autouse=True)
def _closed():
    """Close what a test has opened."""
    yield
    while to_close:
        to_close.pop().close()


@contextmanager
def page_of(folder):
    """Serve the web UI of a checkpoint from a thread, on any port."""
    served = PageServer(run_paths(folder / "log.jsonl"), Address(port=0, token=TOKEN))
    with served.in_background():
        yield served
