"""Feedback: for a node that sheds and is not as busy as it may be, more is planned.

A plan takes a share of keys for the same share of events, and a hash does not keep its word for
keys of which some have ten times as many events as others. How busy a node was tells. If that
is under 0.85 of its limit for three observations and on average, plans are made for a limit
that is greater by what is missing; if it is over the limit on average, for a lesser one, but
never for less than the limit itself: for that there is pressure.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackSettings:
    """When more is planned than the limit of a node.

    Attributes:
        under: If busy time is less than this share of the limit, while the node sheds.
        persistence: For so many observations in a row.
        smoothing: What the latest observation counts in the average.
        most: By no more than this factor in all.
    """

    under: float = 0.85
    persistence: int = 3
    smoothing: float = 0.3
    most: float = 4.0


@dataclass(frozen=True, slots=True)
class NodeFeedback:
    """How many times the limit of a node is planned, and how busy it was."""

    factor: float = 1.0
    mean: float | None = None  # busy time over the limit on average, since the last change
    under: int = 0  # for how many observations in a row it was too little


Feedback = Mapping[str, NodeFeedback]  # by node


def update_feedback(
    before: NodeFeedback | None,
    load: float,
    settings: FeedbackSettings,
    *,
    aim: float,
    sheds: bool,
) -> NodeFeedback:
    """Give the factor after an observation: of busy time over its limit.

    Example:
        >>> feedback = None
        >>> for load in (0.6, 0.6, 0.6):
        ...     feedback = update_feedback(
        ...         feedback, load, FeedbackSettings(), aim=0.9, sheds=True
        ...     )
        >>> round(feedback.factor, 3)
        1.5
    """
    before = before or NodeFeedback()
    if not sheds:
        return NodeFeedback(before.factor)
    mean = load if before.mean is None else before.mean
    mean += settings.smoothing * (load - mean)
    under = before.under + 1 if load < settings.under else 0
    is_under = under >= settings.persistence and mean < settings.under
    if is_under or (mean > 1 and before.factor > 1):
        factor = before.factor * aim / mean if mean else settings.most
        return NodeFeedback(min(settings.most, max(1.0, factor)))
    return NodeFeedback(before.factor, mean, under)


def describe_feedback(before: Feedback, after: Feedback) -> str:
    """Say which limit is planned anew, and why; empty if none is."""
    for name, new in after.items():
        old = before.get(name, NodeFeedback())
        if new.factor > old.factor:
            what = f"{name} sheds and is at only {old.mean or 0.0:.0%} of its limit"
            return f"{what}: {new.factor:.2f} times its limit is planned"
        if new.factor < old.factor:
            return f"{name} is over its limit: {new.factor:.2f} times that is planned"
    return ""
