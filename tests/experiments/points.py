"""A tiny grid, and points without measuring."""

from experiments.scalability import Grid, ProgramForm, Status, TimedSolve

TINY = Grid(name="tiny", types=(10, 40), queries=(2, 5), shares=(0.5, 1.0), time_limit=30.0)
PNG = b"\x89PNG"


def a_point(seconds=1.0, *, program=ProgramForm.PAPER, types=100, queries=10, share=1.0):
    """Make a point; without seconds it has no answer."""
    status = Status.NO_ANSWER if seconds is None else Status.OPTIMAL
    return TimedSolve(
        program=program,
        types=types,
        queries=queries,
        share=share,
        seconds=seconds,
        status=status,
        objective=None if seconds is None else 7.5,
        seed=1,
        repeat=0,
        remark="no answer within 60 s" if seconds is None else "",
    )
