"""Text -> values."""
