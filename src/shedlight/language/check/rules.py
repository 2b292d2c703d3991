"""What a pattern must keep to, whatever it was made from: text, Python, or by hand.

An error keeps the node that is wrong, so that whoever has the text can point at it. The rules
about the tree alone are in `normal_form.py`; what is allowed but means little is in `lint.py`.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from shedlight.errors import RuleError, join_words, known_names
from shedlight.language.ast import expression as ex
from shedlight.language.ast import pattern as ast
from shedlight.language.ast.data_type import NO_VALUES, DataType, Schema
from shedlight.language.check import normal_form as tree
from shedlight.language.check.calls import check_calls
from shedlight.language.check.expr_types import Scope, data_type_of
from shedlight.language.check.lint import PatternWarning, lint_pattern

RESERVED = frozenset({"pattern", "time", "id", "events", "source"})
"""What every complex event has besides the values that are selected."""
_COMBINING = frozenset({"abs", "coalesce", "greatest", "if", "least", "nullif"})
SUMMED = frozenset({ex.AggregateFunction.SUM, ex.AggregateFunction.AVG})
"""The aggregates of numbers; decimals are added up as doubles."""
_OF_VALUES = frozenset({ex.AggregateFunction.MIN, ex.AggregateFunction.MAX})
_ACROSS = (
    "allowed are arithmetic, comparisons, AND, OR, NOT, IS NULL, IN, CASE, coalesce, if,"
    " nullif, abs, least, greatest and CAST AS double of numbers; of one event, any function"
)


def check(pattern: ast.Pattern, schema: Schema | None = None) -> tuple[PatternWarning, ...]:
    """Check a pattern, best in its normal form, and list what cannot mean what it seems to.

    If the schema is not known, neither names nor data types of attributes are checked.

    Raises:
        RuleError: The pattern breaks a rule.
        DataTypeError: The data types of an expression do not fit.
    """
    selected = [item.expression for item in pattern.select]
    tree.require_size(pattern.where, (*pattern.conditions, *selected))
    tree.check_tree(pattern.where)
    for element in ast.elements(pattern.where):
        _check_element(element)
    _check_window(pattern)
    absent = {element.variable for element in ast.negated_elements(pattern.where)}
    names = {e.variable: e.variable not in absent for e in ast.elements(pattern.where)}
    for condition in pattern.conditions:
        _require_values(condition)
        if not ex.variables(condition):
            hint = "compare attributes of variables, such as E1.cpu > 0.5"
            raise RuleError(condition, "this condition mentions no event", hint)
        _require_known(condition, names)
    _check_keys(pattern.partition_by, names)
    for item in pattern.select:
        _check_item(item, names, each=pattern.each)
    _check_item_names(pattern, names)
    _check_data_types(pattern, schema)
    return lint_pattern(pattern)


def check_row(expression: ex.Expression, schema: Schema | None = None) -> DataType:
    """Check an expression about one row alone, without variables, and find its data type."""
    tree.require_levels(expression)
    scope = partial(data_type_in_schema, schema)
    check_calls(expression, scope, schema)
    for node in ex.walk(expression):
        if isinstance(node, ex.WholeEvent | ex.Aggregate) or (
            isinstance(node, ex.Attribute) and node.variable
        ):
            hint = "name a column, without a variable before it"
            raise RuleError(node, f"{str(node)!r} has no meaning for one row alone", hint)
    return data_type_of(expression, scope)


def make_element(condition: ex.Expression) -> ast.Element:
    """Make the element of a condition; RuleError if it is not about exactly one variable."""
    tree.require_levels(condition)
    _require_values(condition)
    names = sorted(ex.variables(condition))
    if not names:
        hint = "an element is a condition on a variable, such as E1.cpu > 0.5"
        raise RuleError(condition, "this condition mentions no event", hint)
    if len(names) > 1:
        hint = "conditions across events stand after the pattern: SEQ(A, B) AND A.x > B.x"
        listed = join_words(map(repr, names), "and")
        raise RuleError(condition, f"an element is one event, this mentions {listed}", hint)
    return ast.Element(names[0], condition)


_Names = Mapping[str, bool]
"""The variables of a pattern as written, and whether a match has events of them."""


def _check_element(element: ast.Element) -> None:
    if (
        element.condition != ex.TRUE
        and make_element(element.condition).variable != element.variable
    ):
        problem = f"the condition of {element.variable!r} is about another variable"
        raise RuleError(element, problem)


def _require_values(condition: ex.Expression) -> None:
    """Require that a condition is about attributes, not about whole events or aggregates."""
    for node in ex.walk(condition):
        if isinstance(node, ex.WholeEvent):
            hint = f"write {node}.x for an attribute of it, E1.x for an attribute x of E1"
            raise RuleError(node, f"{node.variable!r} is a whole event, not a value", hint)
        if isinstance(node, ex.Aggregate):
            hint = "in a condition, the name of a repeated element means its last event"
            raise RuleError(node, f"{node.function.value} can only be selected", hint)
        if isinstance(node, ex.Attribute) and not node.variable:
            hint = f"write the variable of an element, such as E1.{node}"
            raise RuleError(node, f"{node.column!r} needs a variable before it", hint)


def _check_window(pattern: ast.Pattern) -> None:
    absent = tree.trailing_nots(pattern.where)
    if pattern.within is None:
        if tree.max_events(pattern.where) > 1 or absent:
            hint = "add how far apart its events may be, such as WITHIN 10 s"
            raise RuleError(pattern.where, "this pattern needs a window", hint)
    elif absent and pattern.within.unit is ast.WindowUnit.EVENTS:
        hint = "use a time, such as WITHIN 10 s"
        raise RuleError(absent[0], "a NOT at the end needs a window of time", hint)


def _require_known(expression: ex.Expression, names: _Names) -> None:
    """Require that the variables of an expression are those of elements."""
    for node in ex.walk(expression):
        name = getattr(node, "variable", "")
        if name and name not in names:
            hint = known_names(name, names)
            if isinstance(node, ex.WholeEvent):
                hint += f"; an attribute is written {ex.write_name(next(iter(names)))}.{node}"
            raise RuleError(node, f"unknown variable {name!r}", hint)


def _check_keys(keys: Iterable[ex.Attribute], names: _Names) -> None:
    earlier: set[ex.Attribute] = set()
    for key in keys:
        if key.variable or key.path[0] in names:
            rest = key.path if key.variable else key.path[1:]
            hint = f"write {ex.Attribute('', rest)}" if rest else "name an attribute"
            problem = "PARTITION BY is about every event, whatever its variable"
            raise RuleError(key, problem, hint)
        if key in earlier:
            raise RuleError(key, f"{key.column!r} is twice in PARTITION BY", "leave one out")
        earlier.add(key)


def _check_item(item: ast.Item, names: _Names, *, each: bool) -> None:
    """See that a selected value is about events that a match has."""
    _require_known(item.expression, names)
    for node in ex.walk(item.expression):
        name = getattr(node, "variable", "")
        if name and not names[name]:
            hint = "a match has no event that stands under NOT"
            raise RuleError(node, f"{name!r} cannot be selected", hint)
        if isinstance(node, ex.WholeEvent) and node is not item.expression:
            _require_values(node)
        if isinstance(node, ex.Attribute) and not name:
            _check_attribute_of_each(node, names, each=each)


def _check_attribute_of_each(node: ex.Attribute, names: _Names, *, each: bool) -> None:
    if not each:
        hint = "write a variable before it, or SELECT EACH"
        raise RuleError(node, f"{node.column!r} is of no event", hint)
    if node.path[0] in names:
        hint = "give the element another variable"
        raise RuleError(node, f"{node.path[0]!r} is a variable and a column", hint)


def _check_item_names(pattern: ast.Pattern, names: _Names) -> None:
    """See that names differ in more than case, which not every system tells apart."""
    matched = (name for name, has_events in names.items() if has_events)
    everything = [ast.Item(ex.WholeEvent(name), name) for name in matched]
    hint = "give it another name with AS" if pattern.select else "use another variable"
    earlier: set[str] = set()
    for item in pattern.select or everything:
        node = item if pattern.select else pattern.where
        name = item.name.casefold()
        if name in RESERVED:
            problem = f"every complex event has its own {item.name!r}"
            raise RuleError(node, problem, hint)
        if name in earlier:
            raise RuleError(node, f"two selected values are named {item.name!r}", hint)
        earlier.add(name)


def _check_data_types(pattern: ast.Pattern, schema: Schema | None) -> None:
    scope = partial(data_type_in_schema, schema)
    for expression in ast.expressions(pattern):
        check_calls(expression, scope, schema)
    own = (element.condition for element in ast.elements(pattern.where))
    for condition in (*own, *pattern.conditions):
        data_type = data_type_of(condition, scope)
        if data_type not in {DataType.BOOLEAN, DataType.NULL, DataType.UNKNOWN}:
            hint = "compare it with something, such as E1.cpu > 0.5"
            problem = f"a condition is true or false, this is {data_type}"
            raise RuleError(condition, problem, hint)
    for condition in pattern.conditions:
        _check_across(condition, scope)
    for item in pattern.select:
        data_type_of(item.expression, scope)
    for key in pattern.partition_by:
        if data_type_of(key, scope) in NO_VALUES:
            problem = f"a key is one value, {str(key)!r} is {scope(key)}"
            raise RuleError(
                key, problem, "name a field of it, or derive a column with one value"
            )


def _check_across(node: ex.Expression, scope: Scope) -> frozenset[str]:
    """See that events are combined by what a matcher can do, and find the variables."""
    mentioned = [(part, _check_across(part, scope)) for part in ex.children(node)]
    names = frozenset(() if mentioned else ex.variables(node)).union(*(n for _, n in mentioned))
    if len(names) > 1:
        _require_combining(node, scope)
        for inner in (inner for part, n in mentioned if not n for inner in ex.walk(part)):
            if isinstance(inner, ex.Call | ex.Cast | ex.Like):
                problem = "this constant cannot be computed across events"
                raise RuleError(inner, problem, "write its value")
    return names


def _require_combining(node: ex.Expression, scope: Scope) -> None:
    """Require what is computed for single values too, not only for whole columns."""
    name = ""
    if isinstance(node, ex.Call) and node.function not in _COMBINING:
        name = node.function
    elif isinstance(node, ex.Like):
        name = "LIKE"
    elif isinstance(node, ex.Cast):
        text = data_type_of(node.operand, scope) is DataType.STRING
        if text or node.data_type is not DataType.DOUBLE:
            name = f"CAST AS {node.data_type}"
    if name:
        raise RuleError(node, f"`{name}` cannot be used across events", _ACROSS)


def data_type_in_schema(schema: Schema | None, node: ex.Expression) -> DataType:
    """Find the data type of an attribute, a whole event or an aggregate that takes it."""
    if isinstance(node, ex.WholeEvent):
        return DataType.STRUCT
    if isinstance(node, ex.Aggregate):
        return _aggregate_data_type(schema, node)
    if schema is None or not isinstance(node, ex.Attribute):
        return DataType.UNKNOWN
    data_type = schema.get(node.column)
    if data_type is None:
        hint = known_names(node.column, schema)
        raise RuleError(node, f"unknown attribute {node.column!r}", hint)
    return data_type


def _aggregate_data_type(schema: Schema | None, node: ex.Aggregate) -> DataType:
    data_type = DataType.UNKNOWN
    if node.path:
        try:
            data_type = data_type_in_schema(schema, ex.Attribute(node.variable, node.path))
        except RuleError as error:
            raise RuleError(node, error.problem, error.hint) from error
    name = node.function.value
    if node.function is ex.AggregateFunction.COUNT:
        return DataType.BIGINT
    if node.function in SUMMED and not data_type.is_number:
        hint = "name an attribute that is a number"
        raise RuleError(node, f"{name} is of numbers, got {data_type}", hint)
    if node.function in _OF_VALUES and data_type in NO_VALUES:
        hint = "name a field of the struct" if data_type is DataType.STRUCT else ""
        raise RuleError(node, f"{name} is of values, got {data_type}", hint)
    is_double = node.function in SUMMED and data_type is DataType.DECIMAL
    is_double |= node.function is ex.AggregateFunction.AVG
    return DataType.DOUBLE if is_double else data_type
