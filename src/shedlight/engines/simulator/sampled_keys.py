"""The keys of the unshed sample in a simulation, and the work of keys so far."""

from shedlight.graph.application import Stream
from shedlight.graph.sampled import SampledSinks
from shedlight.matching.jit import Array
from shedlight.shedding.unshed_sample import KeyWork


class SampledKeys:
    """The keys of the sample, which patterns keep whatever their shares are.

    Args:
        sinks: Which patterns have a key from source to sink.
        share: The share of keys in the sample; 0: there is no sample.
    """

    def __init__(self, sinks: SampledSinks, share: float) -> None:
        self.sinks, self.share = sinks, share
        self.groups = sinks.groups if share else {}
        self._work = dict.fromkeys(self.groups.values(), KeyWork())

    def choose(self, stream: Stream, keys: Array) -> Array:
        """Say which events are of the sample, by the hashes of the keys that they have."""
        return self._work[self.groups[stream]].choose(keys, self.share)

    def count(self, stream: Stream, keys: Array) -> None:
        """Count the events that a pattern can take, by the hashes of their keys."""
        group = self.groups[stream]
        self._work[group] = self._work[group].add(keys)

    def work(self, sink: str) -> KeyWork:
        """Give the work of the keys of a sink."""
        return self._work[self.groups[self.sinks.patterns[sink][0]]]
