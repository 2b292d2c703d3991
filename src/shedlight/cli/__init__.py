"""The command line: a command calls one function and prints its result."""
