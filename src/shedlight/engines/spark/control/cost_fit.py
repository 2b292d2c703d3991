"""The costs of a micro-batch, fitted to those that have been run.

    seconds - matching = fixed + reading x events + carrying x kept

Matching is measured where it is done; the rest is fitted to the latest micro-batches by least
squares, none of it below zero. A micro-batch says little about three numbers at once, so there
is a first guess that counts as much as a micro-batch that is a tenth of a second off; where all
micro-batches are alike, the guess says how the seconds are split.
"""

from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from shedlight.engines.spark.control.micro_batch import MicroBatchReport
from shedlight.model.arrays import Floats
from shedlight.model.spark_costs import DEFAULT_COSTS, Costs

MAX_BATCHES = 60  # how many micro-batches count at most
_NOISE_S = 0.1  # by how many seconds a micro-batch may be off
_BATCH_DECAY = 0.97  # how much less each older one counts
_OUTLIER_FACTOR = 4.0
"""A micro-batch that took so many times the median is left out: something else was going on."""


def fit_costs(batches: Sequence[MicroBatchReport]) -> Costs:
    """Fit the costs to micro-batches, the latest last."""
    latest = [batch for batch in batches[-MAX_BATCHES:] if batch.events]
    if not latest:
        return DEFAULT_COSTS
    seconds = np.array([max(0.0, batch.seconds - batch.matching) for batch in latest])
    usual = seconds <= _OUTLIER_FACTOR * np.median(seconds)
    counts = np.array([[1.0, batch.events, batch.kept] for batch in latest])
    weights = np.sqrt(_BATCH_DECAY ** np.arange(len(latest))[::-1])
    first = np.array(astuple(DEFAULT_COSTS))
    rows = np.concatenate([(counts * weights[:, None])[usual], np.diag(_NOISE_S / first)])
    target = np.concatenate([(seconds * weights)[usual], np.full(3, _NOISE_S)])
    fixed, reading, carrying = _solve_non_negative(rows, target).tolist()
    return Costs(fixed, reading, carrying)


def _solve_non_negative(rows: Floats, target: Floats) -> Floats:
    """Solve by least squares; coefficients that come out negative are zero."""
    free = np.ones(rows.shape[1], np.bool_)
    while True:
        solution = np.zeros(rows.shape[1])
        scale = np.linalg.norm(rows[:, free], axis=0)
        solution[free] = np.linalg.lstsq(rows[:, free] / scale, target, rcond=None)[0] / scale
        negative = solution < 0
        if not negative.any():
            return solution
        free &= ~negative
