"""Streaming DataFrames of the user in the place of what sources read."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from shedlight.engines.spark.source.carried import arrow_field
from shedlight.engines.spark.source.reader import find_data_types
from shedlight.errors import InputError, known_names
from shedlight.graph import Application, Source
from shedlight.graph.application import DATAFRAME


def with_frames(application: Application, frames: Mapping[str, DataFrame]) -> Application:
    """Have sources be DataFrames that were given; they have the columns of these.

    Raises:
        InputError: A name or a DataFrame is not right, or a source that is one got none.
    """
    for name in frames:
        if name not in application.sources:
            raise InputError(
                f"a DataFrame was given for the source {name!r}, which the application does "
                f"not have; {known_names(name, application.sources)}"
            )
    for name, source in application.sources.items():
        if name in frames:
            _check_frame(source, frames[name])
        elif source.format.lower() == DATAFRAME:
            raise InputError(
                f"source {name} is a DataFrame, which only Python can give: "
                f"Live(..., sources={{{name!r}: frame}}); or write a format and a path"
            )
    sources = {
        name: _without_location(source) if name in frames else source
        for name, source in application.sources.items()
    }
    return replace(application, sources=sources)


def _without_location(source: Source) -> Source:
    return replace(source, format=DATAFRAME, path=None, options={}, value=None, schema=None)


def _check_frame(source: Source, frame: DataFrame) -> None:
    what = f"source {source.name}"
    if not isinstance(frame, DataFrame):
        raise InputError(f"{what} was given {frame!r}; give a streaming DataFrame")
    if not frame.isStreaming:
        raise InputError(
            f"{what} was given a batch DataFrame, and a run goes on: read it with "
            "spark.readStream; `shedlight.find` takes batch DataFrames"
        )
    counts = Counter(name.casefold() for name in frame.columns)
    for field in frame.schema:
        if counts[field.name.casefold()] > 1:
            raise InputError(
                f"{what}: the DataFrame has two columns named {field.name!r}, and case makes "
                "no difference; give one of them another name"
            )
        if field.name.startswith("#"):
            raise InputError(
                f"{what}: the DataFrame has a column {field.name!r}, and names with a # are "
                "for columns of shedlight; give it another name"
            )
        if arrow_field(field) is None:
            raise InputError(
                f"{what}: the column {field.name!r} is {field.dataType.simpleString()}, which "
                f"cannot be carried to Python and back; cast it, or `.drop({field.name!r})`"
            )
    _check_declared(source, frame)


def _check_declared(source: Source, frame: DataFrame) -> None:
    """Hold the columns that the application declares against those that are there."""
    found = find_data_types(frame)
    for name, declared in (source.schema or {}).items():
        if name not in found:
            raise InputError(
                f"source {source.name}: the DataFrame has no column {name!r}, which the "
                f"application declares; {known_names(name, found)}"
            )
        if found[name] is not declared:
            raise InputError(
                f"source {source.name}: the column {name!r} of the DataFrame is {found[name]}, "
                f"and the application declares {declared}; cast it, or declare what it is"
            )


def number_streams(frames: Mapping[str, DataFrame]) -> Mapping[str, tuple[int, ...]]:
    """Number what DataFrames read, in the order in which Spark finds it in them.

    Two that read one and the same stream share its number: in a query it has one log. Without a
    JVM at hand nothing is known, and each is taken to read one stream.
    """
    known: list[Any] = []
    numbers = {}
    for name, frame in frames.items():
        own = _streams_in(frame)
        for stream in own:
            if stream not in known:
                known.append(stream)
        numbers[name] = tuple(map(known.index, own))
    return {name: own for name, own in numbers.items() if own}


def _streams_in(frame: DataFrame) -> list[Any]:
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return []
    leaves = plan.queryExecution().analyzed().collectLeaves()
    every = [leaves.apply(index) for index in range(leaves.length())]
    return [leaf for leaf in every if leaf.isStreaming()]
