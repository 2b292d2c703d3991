"""The data types of values, and the schema of a stream."""

from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum


class DataType(Enum):
    """What a value is. The names are those of Spark SQL."""

    BOOLEAN = "boolean"
    BIGINT = "bigint"
    DOUBLE = "double"
    DECIMAL = "decimal(38,18)"
    STRING = "string"
    TIMESTAMP = "timestamp"
    DATE = "date"
    BOOLEANS = "array<boolean>"
    BIGINTS = "array<bigint>"
    DOUBLES = "array<double>"
    DECIMALS = "array<decimal(38,18)>"
    STRINGS = "array<string>"
    TIMESTAMPS = "array<timestamp>"
    DATES = "array<date>"
    STRUCT = "struct"
    OTHER = "an unsupported data type"
    NULL = "void"
    UNKNOWN = "unknown"

    def __str__(self) -> str:
        return self.value

    @property
    def is_number(self) -> bool:
        """Whether arithmetic works on it; of what is unknown, it is assumed."""
        return self in _NUMBERS

    @property
    def element(self) -> "DataType | None":
        """The data type of the elements of an array; None if it is none."""
        if not self.value.startswith("array<"):
            return None
        return DataType(self.value.removeprefix("array<").removesuffix(">"))


_NUMBERS = {
    DataType.BIGINT,
    DataType.DOUBLE,
    DataType.DECIMAL,
    DataType.NULL,
    DataType.UNKNOWN,
}

PYTHON_TYPES: Mapping[type, DataType] = {
    bool: DataType.BOOLEAN,
    int: DataType.BIGINT,
    float: DataType.DOUBLE,
    str: DataType.STRING,
    datetime: DataType.TIMESTAMP,
    date: DataType.DATE,
    type(None): DataType.NULL,
}
"""The data types of constants."""

ARRAYS = frozenset(data_type for data_type in DataType if data_type.element)
"""The data types of arrays, by what is in them."""

NO_VALUES = ARRAYS | {DataType.STRUCT, DataType.OTHER}
"""The data types that have no values to compare; they are selected, and null or not."""

_UNNAMED = {DataType.NULL, DataType.UNKNOWN, DataType.DECIMAL} | NO_VALUES
TYPE_NAMES: Mapping[str, DataType] = {str(t): t for t in DataType if t not in _UNNAMED}
"""The data types that a user may name in a CAST."""

PLAIN_SCHEMA_NAMES: Mapping[str, DataType] = {
    **TYPE_NAMES,
    "int": DataType.BIGINT,
    "float": DataType.DOUBLE,
    "decimal": DataType.DECIMAL,
}
"""The same of plain values; there are arrays of each."""
SCHEMA_TYPE_NAMES: Mapping[str, DataType] = {
    **PLAIN_SCHEMA_NAMES,
    **{f"array<{name}>": DataType(f"array<{of}>") for name, of in PLAIN_SCHEMA_NAMES.items()},
    str(DataType.DECIMAL): DataType.DECIMAL,
    str(DataType.DECIMALS): DataType.DECIMALS,
}
"""The data types that a user may name in a schema; an int is taken as a bigint."""

Schema = Mapping[str, DataType]
"""The columns of a stream, by name; a field of a struct as `struct.field`."""
