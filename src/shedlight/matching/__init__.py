"""Patterns as automata: Pattern -> Automaton, compiled kernels, the state as a value."""
