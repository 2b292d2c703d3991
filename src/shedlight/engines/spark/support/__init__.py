"""What several stages of a query share."""
