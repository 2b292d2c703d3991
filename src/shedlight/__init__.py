"""Complex event processing on Apache Spark with a globally optimal load shedder."""

__version__ = "0.1.0"
