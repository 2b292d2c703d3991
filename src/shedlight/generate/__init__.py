"""Generated streams for simulations and experiments."""
