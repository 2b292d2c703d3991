"""The queries of all nodes: built, started, supervised."""
