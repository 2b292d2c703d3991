"""Sources on Spark: any format, derived columns, times and ids, and malformed records."""

from datetime import UTC, datetime

import pytest

from shedlight.errors import ApplicationError, InputError, StateError
from shedlight.graph import (
    Node,
    OperatorSpec,
    Sink,
    Source,
    Stream,
    TimeUnit,
    build_application,
)
from shedlight.language import parse_expression, parse_pattern
from shedlight.language.ast.data_type import DataType
from tests.engines.spark.runs import on_spark

pytestmark = pytest.mark.spark

PATTERN = "SELECT a.n AS n, b.half AS half WHERE SEQ(a.half = 1, b.name = 'x') WITHIN 9 s"
LINES = ["ms,n,name", "500,2,y", "1250,3,x", "4000,2,x"]


def _application(path, pattern=PATTERN, **changes):
    fields = {
        "format": "csv",
        "time": "ms",
        "time_unit": TimeUnit.MILLISECONDS,
        "id": ("n", "ms"),
        "options": {"header": "true", "inferSchema": "true"},
        "columns": {"half": parse_expression("n DIV 2")},
    }
    source = Source(name="s", path=str(path), **{**fields, **changes})
    patterns = {"P": parse_pattern(pattern).pattern}
    return build_application(
        "plain",
        [source],
        [Node(name="n")],
        [OperatorSpec(name="w", node="n", inputs=(Stream("s"),), patterns=patterns)],
        [Sink(name="k", input=Stream("P", "w"), format="parquet", path="k")],
    )


def _folder(tmp_path, lines):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text("\n".join(lines) + "\n")
    return folder


def _told(rows):
    return [(row["time"], row["n"], row["half"]) for row in rows]


def test_any_format_of_spark_will_do_and_a_run_can_be_repeated(spark, tmp_path):
    """Text, derived columns, times in milliseconds; complete runs are not done again."""
    application = _application(_folder(tmp_path, LINES))
    expected = [(1_250_000, 2, 1)]
    assert _told(on_spark(spark, application, tmp_path)["k"]) == expected
    assert _told(on_spark(spark, application, tmp_path)["k"]) == expected

    changed = _application(tmp_path / "in", PATTERN.replace("9 s", "8 s"))
    with pytest.raises(
        StateError, match=r"(?s)another application.*before: operators.w.P.*now"
    ):
        on_spark(spark, changed, tmp_path)


def test_a_declared_schema_is_taken_as_it_is(spark, tmp_path):
    """Timestamps are times; text may be an id."""
    lines = [f'{{"at": "2024-01-01T00:00:0{i}Z", "n": "i{i}", "name": "x"}}' for i in (1, 2)]
    application = _application(
        _folder(tmp_path, lines),
        "SELECT a.n AS n, a.at AS at WHERE a.name = 'x'",
        format="json",
        options={},
        columns={},
        time="at",
        id=("n",),
        schema={"at": DataType.TIMESTAMP, "n": DataType.STRING, "name": DataType.STRING},
    )
    found = on_spark(spark, application, tmp_path)["k"]
    second = 1_704_067_200
    assert [(row["time"], row["n"]) for row in found] == [
        ((second + 1) * 1_000_000, "i1"),
        ((second + 2) * 1_000_000, "i2"),
    ]
    moments = [datetime.fromtimestamp(second + i, UTC) for i in (1, 2)]
    assert [row["at"] for row in found] == moments


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("700,,useless", "s: 'n' is null; every event needs"),
        (",5,useless", "s: 'ms' is null; every event"),
    ],
)
def test_records_without_an_id_or_a_time_are_errors(spark, tmp_path, line, message):
    """The message names the source and the column."""
    application = _application(_folder(tmp_path, [*LINES, line]))
    with pytest.raises(InputError, match=message):
        on_spark(spark, application, tmp_path)


def test_what_is_not_there_is_named(spark, tmp_path):
    """A folder, a format, a column."""
    with pytest.raises(InputError, match=r"source s cannot be read as csv: \[PATH_NOT_FOUND\]"):
        on_spark(spark, _application(tmp_path / "nowhere"), tmp_path)
    folder = _folder(tmp_path, LINES)
    with pytest.raises(InputError, match="read as cvs: Spark has no format 'cvs'; write"):
        on_spark(spark, _application(folder, format="cvs"), tmp_path)
    with pytest.raises(ApplicationError, match="unknown column 'nn'"):
        on_spark(spark, _application(folder, id=("nn",)), tmp_path)
