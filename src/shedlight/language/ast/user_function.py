"""Functions of the user: what patterns may call besides the functions of the language."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from shedlight.errors import known_names
from shedlight.language.ast.data_type import PLAIN_SCHEMA_NAMES, DataType


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of one event that patterns may call by name.

    A function of Python is called with columns: an Arrow array for each argument, a value for
    each of many events, and gives as many values: an Arrow or NumPy array, a pandas Series or
    a list. It must give the same for the same event, whenever it is called. A function of Spark
    is one that is registered in the session, or built in.

    Attributes:
        call: The function, or the name of a function of Spark.
        returns: The data type of what it gives: a plain one, such as `double`.

    Example:
        >>> import pyarrow.compute as pc
        >>> UserFunction(pc.utf8_length, returns="bigint").returns
        <DataType.BIGINT: 'bigint'>
    """

    call: Callable[..., Any] | str
    returns: DataType

    def __init__(self, call: Callable[..., Any] | str, returns: DataType | str) -> None:
        if not callable(call) and not (isinstance(call, str) and call):
            raise TypeError(f"a function, or the name of one of Spark, is needed, got {call!r}")
        object.__setattr__(self, "call", call)
        object.__setattr__(self, "returns", _read_type(returns))

    @property
    def name(self) -> str:
        """What it is called where nobody says so."""
        own = self.call if isinstance(self.call, str) else getattr(self.call, "__name__", "")
        return re.sub(r"\W", "", own) or "function"


def _read_type(returns: DataType | str) -> DataType:
    data_type = PLAIN_SCHEMA_NAMES.get(str(returns).lower())
    if str(returns) == str(DataType.DECIMAL):
        data_type = DataType.DECIMAL
    if data_type is None:
        known = known_names(str(returns), PLAIN_SCHEMA_NAMES)
        raise ValueError(f"`returns` is {str(returns)!r}; it must be a data type; {known}")
    return data_type


UserFunctions = Mapping[str, UserFunction]
"""Functions of the user by name, in lower case."""
