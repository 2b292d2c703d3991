"""What columns a stream has, as far as that can be known from the application alone.

The complex events of a pattern have `source`, `time` and `id`, and what the pattern selects. A
whole event that is selected is a struct; its fields are named after it: `E4.cpu`. Of a source
without a declared schema any column is thinkable, and so is any field of its whole events, but
that `CE1.sorce` is not a column of a complex event is known all the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from shedlight.errors import ApplicationError
from shedlight.graph.application import Application, Source, Stream
from shedlight.graph.topology import operator_order
from shedlight.language import DataType, Expression, Pattern
from shedlight.language.ast import expression as ex
from shedlight.language.ast.pattern import Item, selected_items
from shedlight.language.check.expr_types import data_type_of
from shedlight.language.check.rules import check_row, data_type_in_schema

MAX_COLUMNS = 10_000  # how many columns and fields the complex events of a pattern may have

_OF_ONE_EVENT = {ex.AggregateFunction.FIRST, ex.AggregateFunction.LAST}
_OF_COMPLEX_EVENT = {"source": DataType.STRING, "time": DataType.BIGINT, "id": DataType.STRING}


@dataclass(frozen=True, slots=True, eq=False)
class Columns(Mapping[str, DataType]):
    """A schema with room for what is not known."""

    # the columns that are known, and the fields of structs
    data_types: Mapping[str, DataType] = field(default_factory=dict)
    # the structs that may have any field; an empty name stands for the event itself
    open: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> DataType:
        data_type = self.data_types.get(name)
        if data_type is not None:
            return data_type
        if not self.open.isdisjoint(_outer_names(name)):
            return DataType.UNKNOWN
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.data_types)

    def __len__(self) -> int:
        return len(self.data_types)

    @property
    def complete(self) -> bool:
        """Whether all columns are known by name, if not all fields of structs."""
        return "" not in self.open


def is_hidden(column: str) -> bool:
    """Say whether a column is one of our own, which whole events do not have."""
    return column.startswith("#")


def _outer_names(name: str) -> Iterator[str]:
    """Give the names of what a column or field is in: the event, and structs."""
    yield ""
    names = name.split(".")
    yield from (".".join(names[:length]) for length in range(1, len(names)))


def source_columns(source: Source) -> Columns:
    """Find the columns of a source; LanguageError if a derived one does not fit the schema."""
    open_ = frozenset({""}) if source.schema is None else frozenset[str]()
    columns = Columns(dict(source.schema or {}), open_)
    for name, expression in source.columns.items():
        data_type = check_row(expression, columns)
        if not is_hidden(name):
            columns = Columns({**columns.data_types, name: data_type}, open_)
    return columns


def output_columns(stream: Stream, pattern: Pattern, columns: Columns) -> Columns:
    """Find the columns of a pattern's complex events, of those of its input."""
    data_types: dict[str, DataType] = dict(_OF_COMPLEX_EVENT)
    open_: set[str] = set()
    for item in _items(pattern, columns):
        part = _item_columns(item, columns)
        data_types.update(part.data_types)
        open_ |= part.open
        if len(data_types) > MAX_COLUMNS:
            raise ApplicationError(
                f"{stream} selects more than {MAX_COLUMNS:,} columns, with the fields of "
                "whole events; select single attributes, such as E1.cpu"
            )
    if pattern.each and not pattern.select and not columns.complete:
        open_.add("")
    return Columns(data_types, frozenset(open_))


def _items(pattern: Pattern, columns: Columns) -> tuple[Item, ...]:
    """List what is selected; `*` is every event, or with EACH every column of the event."""
    if pattern.each and not pattern.select:
        names = (name for name in columns if "." not in name and name not in _OF_COMPLEX_EVENT)
        return tuple(Item(ex.Attribute("", (name,)), name) for name in names)
    return selected_items(pattern)


def _item_columns(item: Item, columns: Columns) -> Columns:
    """Find the column of one selected value, and its fields if it is a struct."""
    expression = item.expression
    data_type = data_type_of(expression, partial(data_type_in_schema, columns))
    inner = _struct_name(expression)
    if inner is None or data_type not in {DataType.STRUCT, DataType.UNKNOWN}:
        return Columns({item.name: data_type})
    fields = _fields(columns, inner, item.name)
    maybe = {item.name} if data_type is DataType.UNKNOWN else set()
    return Columns({item.name: data_type, **fields.data_types}, fields.open | maybe)


def _struct_name(expression: Expression) -> str | None:
    """Name the struct that is selected, if it is one; the event itself has no name."""
    if isinstance(expression, ex.WholeEvent):
        return ""
    if isinstance(expression, ex.Attribute):
        return expression.column
    if isinstance(expression, ex.Aggregate) and expression.function in _OF_ONE_EVENT:
        return ".".join(expression.path)
    return None


def _fields(columns: Columns, struct: str, name: str) -> Columns:
    """Copy what is in a struct under another name."""
    start = f"{struct}." if struct else ""
    data_types = {
        f"{name}.{column.removeprefix(start)}": data_type
        for column, data_type in columns.data_types.items()
        if column.startswith(start)
    }
    inner = (other for other in columns.open if other.startswith(start) and other != struct)
    open_ = {f"{name}.{other.removeprefix(start)}" for other in inner}
    return Columns(data_types, frozenset(open_ | ({name} if struct in columns.open else set())))


def union_columns(operator: str, columns: Mapping[Stream, Columns]) -> Columns:
    """Find the columns of all inputs of an operator; an event has null where it has none."""
    data_types: dict[str, DataType] = {}
    owners: dict[str, Stream] = {}
    for stream, stream_columns in columns.items():
        for name, data_type in stream_columns.data_types.items():
            before = data_types.get(name, DataType.NULL)
            both = {before, data_type} - {DataType.NULL}
            if len(both - {DataType.UNKNOWN}) > 1:
                raise ApplicationError(
                    f"{operator} reads two columns named {name!r}: {before} in {owners[name]} "
                    f"and {data_type} in {stream}; give one of them another name"
                )
            known = max(both, default=data_type, key=str)
            data_types[name] = DataType.UNKNOWN if DataType.UNKNOWN in both else known
            owners.setdefault(name, stream)
    return Columns(data_types, frozenset().union(*(each.open for each in columns.values())))


def operator_columns(application: Application) -> Mapping[str, Columns]:
    """Find the columns that each operator of a checked application sees."""
    streams = stream_columns(application)
    return {
        spec.name: union_columns(spec.name, {s: streams[s] for s in spec.inputs})
        for spec in operator_order(application)
    }


def stream_columns(application: Application) -> Mapping[Stream, Columns]:
    """Find the columns of each source and pattern of a checked application."""
    streams = {Stream(name): source_columns(s) for name, s in application.sources.items()}
    for spec in operator_order(application):
        columns = union_columns(spec.name, {s: streams[s] for s in spec.inputs})
        for stream in spec.outputs:
            streams[stream] = output_columns(stream, application.pattern(stream), columns)
    return streams
