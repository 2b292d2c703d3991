"""The kinds of value that expressions work on, and the schema of a stream."""

from collections.abc import Mapping
from enum import Enum


class Kind(Enum):
    """What a value is. The names are those of Spark SQL."""

    BOOLEAN = "boolean"
    BIGINT = "bigint"
    DOUBLE = "double"
    STRING = "string"
    TIMESTAMP = "timestamp"
    STRUCT = "struct"
    NULL = "void"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def is_number(self) -> bool:
        """Whether arithmetic works on it; of what is unknown, it is assumed."""
        return self in {Kind.BIGINT, Kind.DOUBLE, Kind.NULL, Kind.UNKNOWN}


TYPE_NAMES: Mapping[str, Kind] = {
    "boolean": Kind.BOOLEAN,
    "bigint": Kind.BIGINT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "timestamp": Kind.TIMESTAMP,
}
"""The kinds that a user may name, in a schema or in a CAST."""

Schema = Mapping[str, Kind]
"""The columns of a stream, by name; a field of a struct as `struct.field`."""
