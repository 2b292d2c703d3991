"""Pattern -> automaton, guards, event types."""
