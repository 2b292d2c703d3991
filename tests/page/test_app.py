"""Whatever its description allows, and much that it does not: the page never fails."""

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from shedlight.page.app import build_app
from shedlight.page.auth import Access
from shedlight.page.run_view import RunPaths, RunView
from tests.page.client import BEARER, TOKEN
from tests.page.conftest import page_of

described = build_app(RunView(RunPaths(Path("nothing"))), Access(TOKEN)).openapi()
schema = schemathesis.openapi.from_dict(described)


@pytest.fixture(scope="module")
def served(recorded_run):
    """Serve a page for all of them."""
    with page_of(recorded_run) as one:
        yield one


@schema.parametrize()
@settings(
    max_examples=15,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_nothing_that_is_asked_is_an_error_of_ours(case, served):
    """Answers are as described, errors are sentences, and none has a status of 5xx."""
    reply = case.call_and_validate(base_url=served.link, headers=BEARER)
    assert reply.status_code < 500
    if reply.status_code >= 400:
        assert len(reply.json()["error"]) > 10
