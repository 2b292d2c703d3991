"""The kind of an expression's value, and what is wrong with an expression that has none.

Two kinds beside the plain ones take part. `DataType.NULL`, of the literal NULL, agrees with any
other. `DataType.UNKNOWN`, of a column whose schema is not known, does so too; of an unknown and
a bigint it is only known that they are numbers, so that their sum is unknown again.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

from shedlight.errors import LanguageError, known_names
from shedlight.language.ast.data_type import TYPE_NAMES, DataType
from shedlight.language.ast.expression import (
    COMPARISONS,
    Aggregate,
    Attribute,
    Binary,
    Call,
    Case,
    Cast,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Operator,
    Sign,
    Unary,
    WholeEvent,
)
from shedlight.language.functions import (
    BOOLEANS,
    FUNCTIONS,
    NUMBERS,
    PLAIN,
    TEXTS,
    argument_data_types,
    arithmetic_data_type,
    common_data_type,
    data_types_name,
    numeric_data_type,
    result_data_type,
)

Scope = Callable[[Expression], DataType]
"""Gives the kind of an attribute, a whole event or an aggregate; raises if it is not there."""

SMALLEST, LARGEST = -(2**63), 2**63 - 1
"""The bounds of a bigint."""

_CASTS = frozenset(
    {
        (DataType.BIGINT, DataType.DOUBLE),
        (DataType.DOUBLE, DataType.BIGINT),
        (DataType.BOOLEAN, DataType.BIGINT),
        (DataType.BIGINT, DataType.BOOLEAN),
        (DataType.BIGINT, DataType.STRING),
        (DataType.STRING, DataType.BIGINT),
        (DataType.STRING, DataType.DOUBLE),
    }
)
_SPECIAL_ADVICE = {
    (DataType.TIMESTAMP, DataType.BIGINT): "use unix_micros(...) on the timestamp",
    (DataType.TIMESTAMP, DataType.DOUBLE): "use unix_micros(...) on the timestamp",
    (
        DataType.DOUBLE,
        DataType.STRING,
    ): "systems write a double differently; cast it to bigint first",
    (DataType.BOOLEAN, DataType.STRING): "use if(..., 'true', 'false')",
    (DataType.BOOLEAN, DataType.DOUBLE): "cast it to bigint first",
}
_FREE = frozenset({DataType.NULL, DataType.UNKNOWN})


class DataTypeError(LanguageError):
    """An expression whose parts do not fit together.

    Args:
        node: The part that is wrong, the very object in the tree.
        problem: What is wrong, lower case, without a full stop.
        hint: What was expected or what to do.
    """

    def __init__(self, node: Expression, problem: str, hint: str = "") -> None:
        self.node = node
        super().__init__(problem, hint=hint)


def data_type_of(expression: Expression, scope: Scope) -> DataType:
    """Find the kind of an expression's value.

    Raises:
        KindError: Some part does not fit; also whatever `scope` raises.

    Example:
        >>> total = Binary(Operator.ADD, Attribute("", ("cpu",)), Literal(0.5))
        >>> kind_of(total, scope=lambda node: Kind.BIGINT)
        <Kind.DOUBLE: 'double'>
    """
    return _kind(expression, scope)


@singledispatch
def _kind(node: Expression, _scope: Scope) -> DataType:
    raise TypeError(f"not an expression: {node!r}")


@_kind.register(Attribute | WholeEvent | Aggregate)
def _(node: Attribute | WholeEvent | Aggregate, scope: Scope) -> DataType:
    return scope(node)


@_kind.register
def _(node: Literal, _scope: Scope) -> DataType:
    if isinstance(node.value, int) and not SMALLEST <= node.value <= LARGEST:
        hint = f"a bigint is from {SMALLEST} to {LARGEST}; write {node.value}.0 for a double"
        raise DataTypeError(node, f"{node.value} does not fit the 64 bits of a bigint", hint)
    kinds = {
        bool: DataType.BOOLEAN,
        int: DataType.BIGINT,
        float: DataType.DOUBLE,
        str: DataType.STRING,
        type(None): DataType.NULL,
    }
    return kinds[type(node.value)]


@_kind.register
def _(node: Unary, scope: Scope) -> DataType:
    allowed = BOOLEANS if node.sign is Sign.NOT else NUMBERS
    found = _checked(node.operand, scope, allowed, f"`{node.sign.value}`")
    return DataType.BOOLEAN if node.sign is Sign.NOT else numeric_data_type(found)


@_kind.register
def _(node: Binary, scope: Scope) -> DataType:
    if node.operator in {Operator.AND, Operator.OR}:
        for operand in (node.left, node.right):
            _checked(operand, scope, BOOLEANS, f"`{node.operator.value}`")
        return DataType.BOOLEAN
    kinds = (_kind(node.left, scope), _kind(node.right, scope))
    return _compared(node, kinds) if node.operator in COMPARISONS else _reckoned(node, kinds)


def _compared(node: Binary, kinds: tuple[DataType, DataType]) -> DataType:
    if DataType.STRUCT in kinds or common_data_type(kinds) is None:
        both, found = _shared_name(kinds), f"{kinds[0]} and {kinds[1]}"
        problem = f"`{node.operator.value}` compares {both} with {both}, got {found}"
        raise DataTypeError(node, problem, _advice_for_all(kinds))
    return DataType.BOOLEAN


def _reckoned(node: Binary, kinds: tuple[DataType, DataType]) -> DataType:
    name, found = f"`{node.operator.value}`", f"{kinds[0]} and {kinds[1]}"
    if any(kind not in NUMBERS | _FREE for kind in kinds):
        problem = f"{name} needs a number on both sides, got {found}"
        joins = node.operator is Operator.ADD and DataType.STRING in kinds
        hint = "use concat(...) to join strings" if joins else _advice_for_all(kinds)
        raise DataTypeError(node, problem, hint)
    if node.operator is Operator.INT_DIVIDE and DataType.DOUBLE in kinds:
        hint = "use `/`, or CAST(... AS bigint) on the double"
        raise DataTypeError(node, f"{name} needs a bigint on both sides, got {found}", hint)
    return arithmetic_data_type(node.operator, kinds)


@_kind.register
def _(node: IsNull, scope: Scope) -> DataType:
    _kind(node.operand, scope)
    return DataType.BOOLEAN


@_kind.register
def _(node: In, scope: Scope) -> DataType:
    if not node.options:
        raise DataTypeError(node, "`IN` has nothing to compare with", "name at least one value")
    _agreed(node, (node.operand, *node.options), scope, "`IN`")
    return DataType.BOOLEAN


@_kind.register
def _(node: Like, scope: Scope) -> DataType:
    _checked(node.operand, scope, TEXTS, "`LIKE`")
    rest = node.form.replace("\\\\", "").replace("\\%", "").replace("\\_", "")
    if "\\" in rest:
        hint = r"write \\ for a backslash, \% for a percent sign, \_ for an underscore"
        raise DataTypeError(node, f"`LIKE` has a lone backslash in {node.form!r}", hint)
    return DataType.BOOLEAN


@_kind.register
def _(node: Case, scope: Scope) -> DataType:
    if not node.branches:
        raise DataTypeError(node, "`CASE` has no branch", "write CASE WHEN ... THEN ... END")
    for test, _result in node.branches:
        _checked(test, scope, BOOLEANS, "`WHEN`")
    results = [result for _test, result in node.branches]
    return _agreed(node, (*results, node.otherwise), scope, "`CASE`")


@_kind.register
def _(node: Cast, scope: Scope) -> DataType:
    source, target = _kind(node.operand, scope), node.kind
    if target not in PLAIN:
        hint = f"cast to {', '.join(TYPE_NAMES)}"
        raise DataTypeError(node, f"nothing can be cast to {target}", hint)
    if source in _FREE or source is target or (source, target) in _CASTS:
        return target
    targets = ", ".join(sorted(str(to) for kind, to in _CASTS if kind is source))
    hint = _advice(source, frozenset({target})) or f"{source} can be cast to {targets}"
    raise DataTypeError(node, f"cannot cast {source} to {target}", hint)


@_kind.register
def _(node: Call, scope: Scope) -> DataType:
    signature = FUNCTIONS.get(node.function)
    if signature is None:
        hint = known_names(node.function, FUNCTIONS, most=len(FUNCTIONS))
        raise DataTypeError(node, f"unknown function {node.function!r}", hint)
    name, count = f"`{node.function}`", len(node.arguments)
    if not signature.takes(count):
        least = f"{'at least ' * signature.repeats}{len(signature.parameters)}"
        problem = f"{name} takes {least} argument{'s' * (least != '1')}, got {count}"
        raise DataTypeError(node, problem, f"write {node.function}({signature})")
    kinds = [
        _checked(argument, scope, signature.parameter(position), name)
        for position, argument in enumerate(node.arguments)
    ]
    free = [kind for i, kind in enumerate(kinds) if len(signature.parameter(i)) > 1]
    _require_agreement(node, free, name)
    return result_data_type(signature, argument_data_types(signature, kinds))


def _checked(
    operand: Expression, scope: Scope, allowed: frozenset[DataType], where: str
) -> DataType:
    """Find the kind of an operand, and see that it is one of those allowed."""
    kind = _kind(operand, scope)
    if kind not in allowed | _FREE:
        problem = f"{where} takes {data_types_name(allowed)}, got {kind}"
        raise DataTypeError(operand, problem, _advice(kind, allowed))
    return kind


def _agreed(
    node: Expression, operands: Sequence[Expression], scope: Scope, where: str
) -> DataType:
    """Find the kind that operands agree on."""
    return _require_agreement(node, [_kind(operand, scope) for operand in operands], where)


def _require_agreement(node: Expression, kinds: Sequence[DataType], where: str) -> DataType:
    common = common_data_type(kinds)
    if common is None or DataType.STRUCT in kinds:
        problem = f"{where} needs values of one kind, got {_listed(kinds)}"
        raise DataTypeError(node, problem, _advice_for_all(kinds))
    return common


def _listed(kinds: Iterable[DataType]) -> str:
    *others, last = dict.fromkeys(map(str, kinds))
    return f"{', '.join(others)} and {last}" if others else last


def _shared_name(kinds: Iterable[DataType]) -> str:
    """Name what both sides of a comparison should be, of what one of them is."""
    known = [kind for kind in kinds if kind not in _FREE | {DataType.STRUCT}]
    if any(kind in NUMBERS for kind in known):
        return "number"
    return str(min(known, key=str)) if known else "value"


def _advice(found: DataType, wanted: frozenset[DataType]) -> str:
    """Say how a value of a kind can be made one of the kinds wanted."""
    if found is DataType.STRUCT:
        return "name a field of the struct, as in `event.field`"
    if wanted == BOOLEANS:
        return "compare it with something, as in `x > 0`"
    casts = sorted(f"CAST(... AS {kind})" for kind in wanted if (found, kind) in _CASTS)
    if casts:
        return f"use {' or '.join(casts)} on the {found}"
    special = [
        _SPECIAL_ADVICE[found, kind] for kind in wanted if (found, kind) in _SPECIAL_ADVICE
    ]
    return special[0] if special else ""


def _advice_for_all(kinds: Iterable[DataType]) -> str:
    """Say how values that should agree can be made to: as numbers, mostly."""
    others = [kind for kind in kinds if kind not in NUMBERS | _FREE]
    return next(filter(None, (_advice(kind, NUMBERS) for kind in others)), "")
