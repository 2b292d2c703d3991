"""Expressions over columns, here and in Spark SQL."""
