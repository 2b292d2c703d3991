"""The application model: from a snapshot to the rates on every edge, up to the sinks."""
