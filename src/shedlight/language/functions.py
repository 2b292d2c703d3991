"""The named functions and operators of the expression language: what each takes and gives.

What they mean is in the back ends, `columns.py` and `spark_sql.py`, which know exactly the
names in `FUNCTIONS`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from shedlight.language.ast.data_type import Kind
from shedlight.language.ast.expression import Operator

BOOLEANS = frozenset({Kind.BOOLEAN})
BIGINTS = frozenset({Kind.BIGINT})
NUMBERS = frozenset({Kind.BIGINT, Kind.DOUBLE})
TEXTS = frozenset({Kind.STRING})
TIMESTAMPS = frozenset({Kind.TIMESTAMP})
PLAIN = BOOLEANS | NUMBERS | TEXTS | TIMESTAMPS
"""The kinds that have values to compare: all but structs."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function takes and gives.

    Attributes:
        parameters: The kinds that each argument may have. The arguments that may have several
            agree on one; a bigint and a double agree on double.
        result: The kind of the result; None is the kind that the arguments agree on.
        repeats: Whether more arguments like the last may follow.
    """

    parameters: tuple[frozenset[Kind], ...]
    result: Kind | None
    repeats: bool = False

    def parameter(self, position: int) -> frozenset[Kind]:
        """Find the kinds that the argument at a position may have."""
        return self.parameters[min(position, len(self.parameters) - 1)]

    def takes(self, count: int) -> bool:
        """Say whether there may be so many arguments."""
        least = len(self.parameters)
        return count == least or (self.repeats and count > least)

    def __str__(self) -> str:
        names = [kinds_name(kinds) for kinds in self.parameters]
        return ", ".join([*names, "..."] if self.repeats else names)


def kinds_name(kinds: frozenset[Kind]) -> str:
    """Name a set of kinds that a parameter may have.

    Example:
        >>> kinds_name(NUMBERS)
        'number'
    """
    if len(kinds) == 1:
        return str(next(iter(kinds)))
    return "number" if kinds == NUMBERS else "value"


FUNCTIONS: Mapping[str, Signature] = {
    "abs": Signature((NUMBERS,), None),
    "ceil": Signature((NUMBERS,), Kind.BIGINT),
    "coalesce": Signature((PLAIN,), None, repeats=True),
    "concat": Signature((TEXTS,), Kind.STRING, repeats=True),
    "contains": Signature((TEXTS, TEXTS), Kind.BOOLEAN),
    "endswith": Signature((TEXTS, TEXTS), Kind.BOOLEAN),
    "floor": Signature((NUMBERS,), Kind.BIGINT),
    "greatest": Signature((PLAIN, PLAIN), None, repeats=True),
    "if": Signature((BOOLEANS, PLAIN, PLAIN), None),
    "isnan": Signature((NUMBERS,), Kind.BOOLEAN),
    "least": Signature((PLAIN, PLAIN), None, repeats=True),
    "length": Signature((TEXTS,), Kind.BIGINT),
    "lower": Signature((TEXTS,), Kind.STRING),
    "nullif": Signature((PLAIN, PLAIN), None),
    "sign": Signature((NUMBERS,), Kind.DOUBLE),
    "sqrt": Signature((NUMBERS,), Kind.DOUBLE),
    "startswith": Signature((TEXTS, TEXTS), Kind.BOOLEAN),
    "substring": Signature((TEXTS, BIGINTS, BIGINTS), Kind.STRING),
    "trim": Signature((TEXTS,), Kind.STRING),
    "unix_micros": Signature((TIMESTAMPS,), Kind.BIGINT),
    "upper": Signature((TEXTS,), Kind.STRING),
}
"""All named functions, by name in lower case."""


def common_kind(kinds: Iterable[Kind]) -> Kind | None:
    """Find the kind that values agree on, or None if they do not.

    Example:
        >>> common_kind([Kind.BIGINT, Kind.NULL, Kind.DOUBLE])
        <Kind.DOUBLE: 'double'>
    """
    found = set(kinds) - {Kind.NULL}
    known = found - {Kind.UNKNOWN}
    if not known:
        return Kind.UNKNOWN if found else Kind.NULL
    if known == NUMBERS:
        return Kind.DOUBLE
    if len(known) > 1:
        return None
    return Kind.UNKNOWN if found == {Kind.BIGINT, Kind.UNKNOWN} else known.pop()


def arithmetic_kind(operator: Operator, kinds: Iterable[Kind]) -> Kind:
    """Find the kind of the result of an arithmetic operator on numbers."""
    if operator is Operator.DIVIDE:
        return Kind.DOUBLE
    if operator is Operator.INT_DIVIDE:
        return Kind.BIGINT
    return number_kind(common_kind(kinds))


def argument_kinds(signature: Signature, kinds: Sequence[Kind]) -> tuple[Kind, ...]:
    """Find the kinds that a function takes its arguments as; they must fit it."""
    parameters = [signature.parameter(position) for position in range(len(kinds))]
    free = [kind for kind, allowed in zip(kinds, parameters, strict=True) if len(allowed) > 1]
    agreed = common_kind(free) or Kind.NULL
    return tuple(
        next(iter(allowed))
        if len(allowed) == 1
        else (number_kind(agreed) if allowed == NUMBERS else agreed)
        for allowed in parameters
    )


def result_kind(signature: Signature, taken: Sequence[Kind]) -> Kind:
    """Find the kind of a function's result, of the kinds that `argument_kinds` gave."""
    return taken[-1] if signature.result is None else signature.result


def number_kind(kind: Kind | None) -> Kind:
    """Find the kind of a number; a null where a number belongs is a bigint."""
    return Kind.BIGINT if kind is None or kind is Kind.NULL else kind
