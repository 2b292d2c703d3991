"""Every text that a user may see: found in the source, in words of ours."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPEC = importlib.util.spec_from_file_location("messages", ROOT / "scripts" / "messages.py")
assert SPEC is not None
assert SPEC.loader is not None
listing = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(listing)

FOREIGN = re.compile(
    r"input should|value is not a valid|unable to|please|an error occurred|something went wrong"
    r"|\boops\b|illegal argument|bad request|unexpected error|failed to\b|!$",
    re.IGNORECASE,
)
"""What libraries say, and what says nothing."""
CORES = {
    "control/node_status.py": "says that cores do not help where no pattern has PARTITION BY",
    "model/latency.py": "is about reading, which all cores share",
    "why/words.py": "only where the pattern has PARTITION BY",
}
"""Modules that may speak of more cores, and why it is true there."""


@pytest.fixture(scope="module")
def messages():
    """Read all of them."""
    return listing.messages()


def test_all_parts_of_the_program_are_in_the_list(messages):
    """Errors, states, progress, help and the web UI."""
    for module, text in (
        ("page/auth.py", "the token is missing or wrong"),
        ("control/node_status.py", "more cores would not help"),
        ("cli/serve.py", "A certificate in PEM"),
        ("page/static/status.js", "The run is over."),
        ("page/static/index.html", "Planned apart from the run"),
        ("engines/spark/support/checkpoint.py", "in use by {owner or 'another run'}"),
    ):
        assert any(text in each for each in messages[module]), (module, text)


def test_the_list_has_no_docstrings_and_no_code(messages):
    """Nor names alone."""
    texts = [text for module in messages.values() for text in module]
    assert len(texts) > 1000
    assert "Who may look and who may change." not in texts
    assert not any(re.match(r"\s*(SELECT|CASE)\b", text) for text in texts)
    assert not any("=>" in text for text in texts)


def test_what_stands_in_a_text_is_put_in_braces():
    """And a text that goes over several lines is one."""
    source = '"""Doc."""\nx = f"of {a.b!r} there are " f"{n:,.0f} left"\ny = "two words"\n'
    found = [text for text in listing.texts_of_python(source) if listing.is_text(text)]
    assert found == ["of {a.b} there are {n} left"]
    script = 'const a = "one of two"; // not "this one here"\nconst b = `${x} is over there`;'
    assert list(listing.texts_of_script(script)) == ["one of two", "{x} is over there"]


def test_no_text_is_in_the_words_of_a_library(messages):
    """Number, cause, something to do: not that something went wrong."""
    found = [
        f"{module}: {text}"
        for module, texts in messages.items()
        for text in texts
        if FOREIGN.search(text)
    ]
    assert found == []


def test_more_cores_are_named_only_where_they_help(messages):
    """Without PARTITION BY one core does all of a node's matching."""
    modules = {
        module
        for module, texts in messages.items()
        if any("more cores" in text for text in texts)
    }
    assert modules == set(CORES)
