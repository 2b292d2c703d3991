"""Writers of the user in the place of what sinks write to."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from shedlight.errors import InputError, known_names
from shedlight.graph import Application
from shedlight.graph.application import DATAFRAME

Writer = Callable[[DataFrame], DataStreamWriter]
"""Says how to write the complex events of a sink: a query that is not started yet."""


def with_writers(application: Application, writers: Mapping[str, Writer]) -> Application:
    """Have sinks be written by the functions that were given.

    Raises:
        InputError: A name or a writer is not right, or a sink that needs one got none.
    """
    for name, writer in writers.items():
        if name not in application.sinks:
            raise InputError(
                f"a writer was given for the sink {name!r}, which the application does not "
                f"have; {known_names(name, application.sinks)}"
            )
        if not callable(writer):
            raise InputError(f"sink {name} was given {writer!r}; {_NEEDED}")
    for name, sink in application.sinks.items():
        if sink.format.lower() == DATAFRAME and name not in writers:
            raise InputError(
                f"sink {name} has no format, so that Python has to say how to write it: "
                f"Live(..., sinks={{{name!r}: writer}}); or write a format and a path"
            )
    sinks = {
        name: replace(sink, format=DATAFRAME, path=None, options={})
        if name in writers
        else sink
        for name, sink in application.sinks.items()
    }
    return replace(application, sinks=sinks)


def call_writer(what: str, writer: Writer, events: DataFrame) -> DataStreamWriter:
    """Have a function of the user say how to write; one that starts the query is an error."""
    query = writer(events)
    if not isinstance(query, DataStreamWriter):
        raise InputError(
            f"the writer of {what} gave {type(query).__name__}; {_NEEDED}, not started yet: "
            "checkpoint, trigger and start are ours"
        )
    return query


_NEEDED = (
    "give a function from a DataFrame to a DataStreamWriter, such as "
    "`lambda events: events.writeStream.foreachBatch(save)`"
)
