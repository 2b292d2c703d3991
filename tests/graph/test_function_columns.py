"""Functions that an application names: the same matches, simulated or not."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from shedlight.engines.simulator import Service, simulate
from shedlight.engines.tables import run_application
from shedlight.errors import ApplicationError, InputError
from shedlight.graph import load_application, with_schemas
from shedlight.graph.file.serialize import application_text
from shedlight.language import DataType

TEXT = """
name: fraud
functions:
  cents: {python: "tests.graph.test_function_columns:cents", returns: bigint}
  loud: {python: "pyarrow.compute:utf8_upper", returns: string}
sources:
  cards:
    format: parquet
    path: cards
    time: at
    id: [n]
    columns: {shown: "concat(loud(kind), '!')"}
nodes: {edge: {}, core: {}}
operators:
  w:
    node: edge
    input: [cards]
    patterns:
      Rise: >
        SELECT b.card, cents(b.amount) AS cents, b.shown AS shown
        WHERE SEQ(loud(a.kind) = 'BUY', cents(b.amount) > 150)
        AND cents(b.amount) > cents(a.amount)
        WITHIN 9 s PARTITION BY card
  v:
    node: core
    input: [w.Rise]
    patterns: {Large: "SELECT a.cents AS cents WHERE a.cents > 300"}
sinks:
  all: {input: w.Rise, format: parquet, path: all}
  large: {input: v.Large, format: parquet, path: large}
"""


def cents(amounts):
    """Give whole cents."""
    return pc.cast(pc.round(pc.multiply(amounts, 100.0)), pa.int64())


def drawn_cards(number=60):
    """Give payments by three cards."""
    return pa.table(
        {
            "at": [1_000_000 * i for i in range(number)],
            "n": list(range(number)),
            "card": [i % 3 for i in range(number)],
            "kind": [("buy", "Buy", "sell", None)[i * 7 % 4] for i in range(number)],
            "amount": [(i * 37 % 50) / 10 for i in range(number)],
        }
    )


def _expected(table):
    """The same with columns that were there before."""
    given = table.append_column("c", cents(table["amount"]))
    given = given.append_column("l", pc.utf8_upper(table["kind"]))
    text = TEXT.replace("loud(kind)", "l").replace("loud(a.kind)", "a.l")
    for variable in "ab":
        text = text.replace(f"cents({variable}.amount)", f"{variable}.c")
    application = load_application(text).application
    return run_application(application, {"cards": given})


def test_a_function_finds_what_a_column_would():
    """In an application, by `match` and simulated; ids and all."""
    application, table = load_application(TEXT).application, drawn_cards()
    found, expected = run_application(application, {"cards": table}), _expected(table)
    for operator, pattern in (("w", "Rise"), ("v", "Large")):
        rows = found[operator].complex_events[pattern].to_pylist()
        assert rows == expected[operator].complex_events[pattern].to_pylist()
        assert rows
    assert found["w"].complex_events["Rise"]["shown"][0].as_py() in {"BUY!", "SELL!"}
    simulated = simulate(application, {"cards": table}, Service(seconds={}))
    for sink, (operator, pattern) in {"all": ("w", "Rise"), "large": ("v", "Large")}.items():
        ids = found[operator].complex_events[pattern]["id"].to_pylist()
        assert sorted(simulated.sinks[sink]["id"].to_pylist()) == sorted(ids)


def test_an_application_with_functions_can_be_written_down():
    """To plan with: who computes them is no matter then."""
    application = load_application(TEXT).application
    schema = {"at": DataType.BIGINT, "n": DataType.BIGINT, "card": DataType.BIGINT}
    schema |= {"kind": DataType.STRING, "amount": DataType.DOUBLE}
    checked = with_schemas(application, {"cards": schema})
    hidden = [name for name in checked.sources["cards"].columns if name.startswith("#")]
    assert len(hidden) == 2
    assert [*checked.sources["cards"].columns][:2] == [hidden[0], "shown"]
    assert with_schemas(checked, {}) == checked
    read = load_application(application_text(checked)).application
    patterns = [str(one.operators["w"].patterns["Rise"]) for one in (read, application)]
    assert patterns[0] == patterns[1]


def _run(text):
    return run_application(load_application(text).application, {"cards": drawn_cards()})


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("cents(b.amount) > 150", "cents(b.amont) > 150", "unknown attribute 'amont'"),
        ("a.cents > 300", "cents(a.cents) > 300", "select it there, as in SELECT cents(E1.x)"),
        ("pyarrow.compute:utf8_upper", "pyarrow.nowhere:f", "cannot be imported"),
        ("pyarrow.compute:utf8_upper", "pyarrow.compute", "write module:function"),
        ("returns: string", "returns: text", "must be a data type, got 'text'"),
        ("  loud: {python", "  upper: {python", "the language has a function 'upper' already"),
        ("loud: {", "loud: {spark: x, ", "write either `python: module:function` or `spark"),
    ],
)
def test_what_is_wrong_with_a_function_is_said(before, after, says):
    """With its place in the file."""
    with pytest.raises(ApplicationError) as raised:
        _run(TEXT.replace(before, after))
    assert says in str(raised.value)


def test_every_source_needs_what_a_function_is_given():
    """An event that lacks an argument is no event with a null."""
    text = TEXT.replace("input: [cards]", "input: [cards, other]").replace(
        "nodes: {edge",
        "  other: {format: parquet, path: other, time: at, id: [n]}\nnodes: {edge",
    )
    tables = {"cards": drawn_cards(), "other": drawn_cards().drop_columns(["amount"])}
    with pytest.raises(
        ApplicationError, match=r"sources\.other does not have what cents\(amount"
    ):
        run_application(load_application(text).application, tables)


def test_without_spark_a_function_of_spark_cannot_be_called():
    """It says so, and what to do."""
    text = TEXT.replace('python: "pyarrow.compute:utf8_upper"', "spark: upper")
    with pytest.raises(InputError, match=r"a function of Spark \('upper'\), which only Spark"):
        _run(text)


@pytest.mark.parametrize("content", ["cents = (", "1 / 0", "raise RuntimeError('no')"])
def test_a_module_that_fails_is_a_mistake_of_the_file(tmp_path, monkeypatch, content):
    """Whatever it does when it is imported: a run that watches its file goes on."""
    (tmp_path / "failing_module.py").write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    text = TEXT.replace("pyarrow.compute:utf8_upper", "failing_module:f")
    with pytest.raises(
        ApplicationError, match=r"'failing_module:f' cannot be imported: .*Error"
    ):
        load_application(text)
