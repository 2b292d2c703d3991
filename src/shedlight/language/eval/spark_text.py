"""Names and texts for Spark SQL, whatever is in them."""


def quote_name(name: str) -> str:
    """Write the name of a column for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    """Write a text for Spark SQL, whatever is in it."""
    if value.isprintable() and not set(value) & set("'\\$"):
        return f"'{value}'"
    return f"CAST(X'{value.encode().hex().upper()}' AS STRING)"
