"""Observations of the paper's running example, as a simple world would give them."""

from collections.abc import Mapping

from shedlight.control.observation import Observation
from shedlight.graph.application import Stream
from shedlight.shedding.shares import Shares
from tests.graph.applications import stream
from tests.model.applications import PAPERS, paper

APPLICATION = paper()
RATES: Mapping[str, Mapping[str, float]] = PAPERS["rates"]  # type: ignore[assignment]
TIMES = {"w1.Q11": 1e-4, "w1.Q12": 1e-4, "w2.Q21": 0.004, "w2.Q22": 0.008}
USES = {
    "w1.Q11": ("type=0", "type=1"),
    "w1.Q12": ("type=1", "type=2", "type=3"),
    "w2.Q21": ("type=0", "type=1"),
    "w2.Q22": ("type=1", "type=2", "type=3"),
}
NODE = "edge-2"


def matches(name: str, kept: Mapping[str, float]) -> float:
    """Count the matches of a SEQ of two 0s and a 1, or of one of each type."""
    if name.endswith("1"):
        return min(kept["type=0"] / 2, kept["type=1"])
    return min(kept.values())


def observed(
    factor: float = 1.0,
    shares: Shares | None = None,
    *,
    time: float = 0.0,
    rates: Mapping[str, float] | None = None,
    yields: float = 1.0,
    **more: object,
) -> Observation:
    """Observe the example at a factor of its load, shed as shares say.

    Args:
        factor: How many times the load of s2 there is.
        shares: What patterns keep.
        time: Of the observation.
        rates: Of s2, by type.
        yields: Matches over those of the model.
        more: What else was observed.
    """
    second = {k: v * factor for k, v in (rates or RATES["s2"]).items()}
    sources = {"w1": dict(RATES["s1"]), "w2": second}
    kept, outputs = {}, {}
    for name, uses in USES.items():
        pattern = stream(name)
        share = (shares or {}).get(pattern)
        arriving = sources[str(pattern.operator)]
        kept[pattern] = {k: arriving[k] * (share.shares[k] if share else 1.0) for k in uses}
        outputs[pattern] = matches(name, kept[pattern]) * yields
    busy = sum(TIMES[str(k)] * sum(v.values()) for k, v in kept.items() if k.operator == "w2")
    fed = {
        "w3": {s: {f"source={s.name}": outputs[s]} for s in map(stream, ("w1.Q11", "w2.Q21"))},
        "w4": {s: {f"source={s.name}": outputs[s]} for s in map(stream, ("w1.Q12", "w2.Q22"))},
    }
    settings: dict[str, object] = {
        "busy": {NODE: min(busy, 1.0)},
        "processing_time": {stream(k): v for k, v in TIMES.items()},
    }
    return Observation(
        time=time,
        interval=5.0,
        arrivals={
            "w1": {Stream("s1"): sources["w1"]},
            "w2": {Stream("s2"): second},
            **fed,
        },
        kept=kept,
        outputs=outputs,
        **{**settings, **more},  # type: ignore[arg-type]
    )
