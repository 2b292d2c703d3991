"""Events and complex events as bytes between the stages of a query."""
