"""The live page: the log of a run -> what a browser shows of it, and wishes for it.

It reads the log and nothing else of the engine. So a run that is under way, one that is over
and one that was started again are the same to it.
"""
