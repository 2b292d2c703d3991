"""Start and end Spark, and say early what is missing."""
