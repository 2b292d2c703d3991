"""The values of the language: expressions, patterns, windows, data types."""
