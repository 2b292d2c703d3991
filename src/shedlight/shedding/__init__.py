"""The shedder: from shares to the decision about each event."""
