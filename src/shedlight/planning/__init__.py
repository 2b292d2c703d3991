"""Planning: which share of which type each pattern keeps, so that bounds hold."""
