"""The report of a run: the web UI with its answers in it, as one file that asks for nothing.

What a log says is foreign text. It is in the file as JSON, which no browser runs, and is shown
as text by the code of the web UI; by its policy the file runs no other code than that.
"""

import base64
import hashlib
import json
import math
import os
import re
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pydantic_core import to_jsonable_python

from shedlight.page import schemas
from shedlight.page.keep_rows import plan_answer
from shedlight.page.pattern import pattern_answer
from shedlight.page.run_view import MAX_DECISIONS, RunPaths, RunView
from shedlight.page.series import MAX_CURVE_POINTS, series_answer
from shedlight.page.status import decision_answers, run_answer, status_answer
from shedlight.page.totals import totals_answer
from shedlight.report.format import escape
from shedlight.report.narrative import sentences
from shedlight.runlog.follow import Run

STATIC = Path(__file__).parent / "static"
MAX_PLAN_ROWS = 4_000  # how many keep shares of all plans together are in a report
_MAX_POINTS, _MIN_POINTS = 12_000, 60  # of all nodes together, and of each
_STYLE = re.compile(r'<link rel="stylesheet" href="/static/([\w.]+)">\n')
_ICON = re.compile(r'href="/static/icon\.svg"')
_SCRIPT = re.compile(r'<script type="module" src="/static/([\w.]+)"></script>\n')
_NOSCRIPT = re.compile(r"<noscript>.*?</noscript>", re.DOTALL)
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w.]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function\*?|const|class) (\w+))", re.MULTILINE)


def report_page(run: Run) -> str:
    """Write the report of a run, as HTML."""
    with closing(RunView(RunPaths(Path(os.devnull)), clock=lambda: math.inf)) as view:
        answers = _answers(run, view)
    data = json.dumps(answers, separators=(",", ":")).replace("<", "\\u003c")
    html = (STATIC / "index.html").read_text("utf-8")
    style = "".join((STATIC / name).read_text("utf-8") for name in _STYLE.findall(html))
    script = bundle(_SCRIPT.findall(html)[0])
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    icon = quote((STATIC / "icon.svg").read_text("utf-8"))
    described = "".join(f"<li>{escape(text, 3000)}</li>\n" for text in sentences(run))
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f"<style>{style}</style>\n"
    )
    end = (
        f'<script type="application/json" id="recorded">{data}</script>\n'
        f"<script>{script}</script>\n</body>"
    )
    html = _STYLE.sub("", _SCRIPT.sub("", html))
    html = _ICON.sub(f'href="data:image/svg+xml,{icon}"', html)
    html = _NOSCRIPT.sub(lambda _: f"<noscript><ul>{described}</ul></noscript>", html)
    return html.replace("</head>", f"{head}</head>").replace("</body>", end)


def _hash(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def bundle(start: str) -> str:
    """Join a module of the web UI and all that it imports to one script.

    Each module is a function that gives what it exports, so that names stay its own.
    """
    parts = "".join(
        f"const {_variable(name)} = (() => {{\n{_as_function(name)}}})();\n"
        for name in dict.fromkeys(_in_order(start))
    )
    return f'(() => {{\n"use strict";\n{parts}}})();\n'


def _in_order(name: str) -> Iterator[str]:
    """List a module and what it imports, what is imported first."""
    for _, imported in _IMPORT.findall(_source(name)):
        yield from _in_order(imported)
    yield name


def _as_function(name: str) -> str:
    source = _source(name)
    exported = [found for _, found in _EXPORT.findall(source)]

    def bind(found: re.Match[str]) -> str:
        names = found[1].replace(" as ", ": ")
        return f"const {{{names}}} = {_variable(found[2])};\n"

    body = _EXPORT.sub(r"\1", _IMPORT.sub(bind, source))
    return f"{body}return {{ {', '.join(exported)} }};\n"


def _variable(name: str) -> str:
    return f"${name.removesuffix('.js')}"


@cache
def _source(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def _answers(run: Run, view: RunView) -> dict[str, Any]:
    """Collect what the web UI would ask for, as the log has it at its end."""
    for record in run.records:
        view.add(record)
    nodes = list(view.totals.nodes)
    header = view.totals.header
    most = max(_MIN_POINTS, min(MAX_CURVE_POINTS, _MAX_POINTS // max(1, len(nodes))))
    answers = {
        "run": run_answer(view).model_copy(update={"live": False, "can_apply": False}),
        "status": status_answer(view).model_copy(update={"live": False, "stale_seconds": None}),
        "totals": totals_answer(view).model_copy(update={"live": False}),
        "decisions": decision_answers(view, MAX_DECISIONS),
        "series": {name: series_answer(view, name, math.inf, most) for name in nodes},
        "pattern": {
            name: pattern_answer(view, name)
            for name in (header.pattern_texts if header else {})
        },
        "plans": _plans(view),
    }
    return dict(to_jsonable_python(answers, inf_nan_mode="null"))


def _plans(view: RunView) -> list[tuple[float, schemas.PlanAnswer | None]]:
    """List the plans that were active and since when; None for old ones that do not fit."""
    plans: list[tuple[float, schemas.PlanAnswer | None]] = []
    decisions, rows = list(view.decisions), 0
    for decision, before in reversed(list(zip(decisions, [None, *decisions], strict=False))):
        if before is not None and before.shares == decision.shares:
            continue
        answer = plan_answer(view, decision.time) if rows <= MAX_PLAN_ROWS else None
        rows += len(answer.keep_rows) if answer else 0
        plans.append((decision.time, answer))
    return plans[::-1]
