"""The stored events of an application, matched without shedding, in pieces if they are many."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from shedlight.cli.console import announce_compiling, patterns_of, progress_bar
from shedlight.cli.future_events import FutureCounts
from shedlight.cli.malformed import MalformedRecords
from shedlight.cli.source_files import open_sources, read_sources
from shedlight.engines.event_pieces import EventPieces, PiecesDifferError
from shedlight.engines.pieces_run import run_application_pieces
from shedlight.engines.recovery import cut_pieces, match_stored, run_in_pieces
from shedlight.engines.tables import Result
from shedlight.graph import Application
from shedlight.matching.operators.cep_operator import CepOperator

_PIECE = 200_000  # how many events are matched between two steps of the progress bar


@dataclass(frozen=True, slots=True)
class StoredEvents:
    """Where the events of all sources are stored."""

    application: Application
    folder: Path  # of the application file
    inputs: Sequence[str]  # values of --input
    until: int | None  # what arrived after the last event up to this time is left out

    def match(
        self, began: Mapping[str, int], left_out: MalformedRecords, future: FutureCounts
    ) -> Mapping[str, Result]:
        """Match them; patterns that `began` at a time see no events from before it."""
        found, malformed = None, list[pa.Table]()
        sources = self._open(malformed, future)
        announce_compiling(patterns_of(self.application))
        if sources is not None:
            with suppress(PiecesDifferError):  # they are read as a whole then, below
                found = self._match_pieces(sources, began, malformed)
        if found is None:
            malformed.clear()
            future.clear()
            found = self._match_whole(began, malformed, future)
        for records in malformed:
            left_out.add(records)
        return found

    def _open(
        self, malformed: list[pa.Table], future: FutureCounts
    ) -> Mapping[str, EventPieces] | None:
        given = self.application, self.folder, self.inputs
        sources = open_sources(*given, malformed.append, future.add)
        if sources is None or self.until is None:
            return sources
        first = open_sources(*given, lambda _: None, lambda _: None) or sources
        known = self.application.sources
        with suppress(PiecesDifferError):
            return {
                name: cut_pieces(known[name], first[name], pieces, self.until)
                for name, pieces in sources.items()
            }
        return None

    def _match_pieces(
        self,
        sources: Mapping[str, EventPieces],
        began: Mapping[str, int],
        malformed: list[pa.Table],
    ) -> Mapping[str, Result]:
        number = sum(pieces.number for pieces in sources.values())
        with progress_bar("matching", number) as advance:
            return run_application_pieces(
                self.application,
                sources,
                on_malformed=malformed.append,
                on_piece=advance,
                began=began,
            )

    def _match_whole(
        self, began: Mapping[str, int], malformed: list[pa.Table], future: FutureCounts
    ) -> Mapping[str, Result]:
        tables = read_sources(
            self.application,
            self.folder,
            self.inputs,
            on_malformed=malformed.append,
            on_future=future.add,
        )
        progress = _Progress(len(self.application.operators), began)
        return match_stored(
            self.application, tables, self.until, progress.run, malformed.append
        )


class _Progress:
    """Runs operators one after the other, with a bar for each that takes long."""

    def __init__(self, number: int, began: Mapping[str, int]) -> None:
        self._number, self._began, self._done = number, began, 0

    def run(self, operator: CepOperator, tables: Sequence[pa.Table]) -> Result:
        """Run an operator piece by piece."""
        self._done += 1
        pieces = max(1, sum(map(len, tables)) // _PIECE)
        with progress_bar(f"matching, {self._done} of {self._number}", pieces) as advance:
            return run_in_pieces(operator, tables, pieces, advance, self._began)
