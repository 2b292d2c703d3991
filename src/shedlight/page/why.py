"""Why a pattern did not match: `shedlight why` in a process of its own.

It reads the events of the sources, which may take seconds and much memory, so it is none of the
process that serves the web UI or of the run; and it has a lower priority.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from shedlight.errors import known_names
from shedlight.page import schemas
from shedlight.page.errors import RequestError
from shedlight.page.run_view import RunPaths
from shedlight.report.format import sanitize

TIMEOUT_S = 60.0
"""How long an answer may take, in seconds."""
_MAX_ANSWER = 20_000
_PRIORITY = 5
"""A third of what others get; with the lowest there is no answer while a run needs all."""
_NO_APPLICATION = (
    "the events are not known here: begin with `shedlight serve ... --application app.yaml`, "
    "or with `shedlight run app.yaml --page`"
)


class WhyCommand:
    """Answers why a pattern did not match, a question at a time."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._lock = asyncio.Lock()

    async def answer(
        self, request: schemas.WhyRequest, patterns: Mapping[str, str]
    ) -> schemas.ExplanationAnswer:
        """Answer a question about one of the patterns of the run.

        Raises:
            RequestError: It cannot be answered, or not now.
        """
        if self._paths.application is None:
            raise RequestError(409, _NO_APPLICATION)
        if request.pattern not in patterns:
            hint = known_names(request.pattern, list(patterns))
            raise RequestError(404, f"there is no pattern {request.pattern[:60]!r}; {hint}")
        if request.key is None and request.time is None:
            raise RequestError(422, "say what to ask about: a key, a time, or both")
        if self._lock.locked():
            raise RequestError(429, "another question is being answered; ask again in a moment")
        async with self._lock:
            return await self._run(list(_arguments(self._paths, request)))

    async def _run(self, arguments: list[str]) -> schemas.ExplanationAnswer:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "shedlight.cli", "why", *arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "1000"},
        )
        try:
            os.setpriority(os.PRIO_PROCESS, process.pid, _PRIORITY)
            out, err = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
        except TimeoutError as error:
            raise RequestError(
                409,
                f"there are too many events to answer within {TIMEOUT_S:.0f} s; ask `shedlight "
                "why` in a terminal, which may take longer",
            ) from error
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()  # its pipes are closed then
        if process.returncode:
            raise RequestError(409, self._reason(err.decode("utf-8", "replace")))
        return schemas.ExplanationAnswer(
            lines=[
                " " * (len(line) - len(line.lstrip())) + sanitize(line, 1000)
                for line in out.decode("utf-8", "replace")[:_MAX_ANSWER].splitlines()
            ]
        )

    def _reason(self, said: str) -> str:
        """Find out why there is no answer, without where on the computer something is."""
        folder = Path(self._paths.application or ".").parent
        text = said.replace(f"{folder}/", "").partition("shedlight: ")[2]
        return sanitize(text, 500) or "it cannot be found out; `shedlight why` says why"


def _arguments(paths: RunPaths, request: schemas.WhyRequest) -> Iterator[str]:
    yield str(paths.application)
    yield f"--pattern={request.pattern.rpartition('.')[2]}"
    if request.key is not None:
        yield f"--key={request.key}"
    if request.time is not None:
        yield f"--at={round(request.time * 1e6)}"
    if isinstance(paths.checkpoint, Path):
        yield f"--checkpoint={paths.checkpoint}"
