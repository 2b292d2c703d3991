"""The web UI: the log of a run -> what a browser shows of it, what-if, and overrides.

It reads the log and nothing else of the engine. So a run that is under way, one that is over
and one that was started again are the same to it.
"""
