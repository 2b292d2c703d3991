"""The window-aware model: patterns tried on random events with the matcher itself."""
