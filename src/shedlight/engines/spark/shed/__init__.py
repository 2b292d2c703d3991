"""Event types and shedding in the JVM, by the plan of each micro-batch."""
