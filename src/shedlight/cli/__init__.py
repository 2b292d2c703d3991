"""The command line: a verb calls one function and prints its result."""
