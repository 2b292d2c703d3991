"""An application as Spark Structured Streaming queries, one for each node.

    read inputs -> derived columns and time (SQL) -> types and keep masks (SQL)
    -> drop what no pattern keeps -> pack by group -> match (stateful) -> outbox

Only this package knows Spark. Events travel to Python and back as packed Arrow tables, many in
one row: no value is converted on the way, and none of a column's kind is lost.
"""
