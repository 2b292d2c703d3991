"""Times in Spark SQL, whatever the session's zone: text in ISO-8601 or a format, and days."""

from shedlight.language.eval.column import DAY
from shedlight.language.eval.spark_text import quote_text
from shedlight.language.eval.texts import BLANKS
from shedlight.language.time_format import (
    DATE_FORM,
    HOURS_FORM,
    MINUTE_FORM,
    SECOND_FORM,
    rewrite_format,
)


def timestamp_sql(text: str, zone: str | None = None) -> str:
    """Write how a text in ISO-8601 is read; without a zone it is of the zone named, or UTC."""
    full, short = f"({DATE_FORM}[T ]{SECOND_FORM})", f"({DATE_FORM}[T ]{MINUTE_FORM})"
    zoned, local = [], []
    for time, read in ((full, "$1"), (short, "$1:00")):  # without seconds Spark reads no zone
        zoned.append(_when(text, f"{time} ?Z", f"{read}Z"))
        zoned.append(_when(text, f"{time} ?({HOURS_FORM}):?([0-5][0-9])", f"{read}$2:$3"))
        zoned.append(_when(text, f"{time} ?({HOURS_FORM})", f"{read}$2:00"))
        local.append(_when(text, time, f"{read}Z"))
    local.append(_when(text, f"({DATE_FORM})", "$1T00:00:00Z"))
    if zone is None:
        return f"try_cast(CASE {' '.join((*zoned, *local))} END AS TIMESTAMP)"
    read = f"try_cast(CASE {' '.join(local)} END AS TIMESTAMP)"
    shifted = f"to_utc_timestamp({read}, {quote_text(zone)})"
    return f"coalesce(try_cast(CASE {' '.join(zoned)} END AS TIMESTAMP), {shifted})"


def _when(text: str, form: str, iso: str) -> str:
    """Write a time that has a form as Spark reads it; blanks around it go."""
    pattern = quote_text(rf"\A[{BLANKS}]*{form}[{BLANKS}]*\z")
    return (
        f"WHEN {text} RLIKE {pattern} THEN regexp_replace({text}, {pattern}, {quote_text(iso)})"
    )


def formatted_sql(text: str, form: str | None = None) -> str:
    """Write how a text in a format is read."""
    if form is None:
        return timestamp_sql(text)
    pattern, parts = rewrite_format(form)
    iso = quote_text("".join(f"${part}" if isinstance(part, int) else part for part in parts))
    regex = quote_text(pattern)
    written = f"IF({text} RLIKE {regex}, regexp_replace({text}, {regex}, {iso}), NULL)"
    return timestamp_sql(written)


def day_sql(text: str) -> str:
    """Write the day in UTC of a timestamp."""
    micros = f"unix_micros({text})"
    days = f"({micros} - pmod({micros}, {DAY}L)) DIV {DAY}L"
    return f"date_from_unix_date(CAST({days} AS INT))"
