"""From micro-batch reports to plans, the log, and overrides."""
