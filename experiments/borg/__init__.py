"""The Google cluster traces: files, events, types."""
