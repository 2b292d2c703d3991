"""The data types of values, and the schema of a stream."""

from collections.abc import Mapping
from enum import Enum


class DataType(Enum):
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
        return self in {DataType.BIGINT, DataType.DOUBLE, DataType.NULL, DataType.UNKNOWN}


PYTHON_TYPES: Mapping[type, DataType] = {
    bool: DataType.BOOLEAN,
    int: DataType.BIGINT,
    float: DataType.DOUBLE,
    str: DataType.STRING,
    type(None): DataType.NULL,
}
"""The data types of constants."""

_UNNAMED = {DataType.STRUCT, DataType.NULL, DataType.UNKNOWN}
TYPE_NAMES: Mapping[str, DataType] = {str(t): t for t in DataType if t not in _UNNAMED}
"""The data types that a user may name, in a schema or in a CAST."""

Schema = Mapping[str, DataType]
"""The columns of a stream, by name; a field of a struct as `struct.field`."""
