"""Which operators can shed their keys in strata: all their patterns have the same key."""

from collections.abc import Mapping

from shedlight.graph.application import Application, OperatorSpec, ShedBy
from shedlight.graph.closures import Closures, find_closures
from shedlight.graph.topology import key_name


def find_stratified(
    application: Application, closures: Closures | None = None
) -> Mapping[str, str]:
    """Find the operators whose keys are shed in strata, with the name of that key.

    They are on a node with a bound, and no pattern of theirs is in a protected closure, where a
    key is whole or shed by its hash.
    """
    closures = closures or find_closures(application)
    protected = {*closures.by_watcher, *closures.groups, *closures.switches}
    found = {}
    for spec in application.operators.values():
        key, is_bound = _common_key(spec), application.nodes[spec.node].bound is not None
        if key and is_bound and protected.isdisjoint(spec.outputs):
            found[spec.name] = key
    return found


def _common_key(spec: OperatorSpec) -> str:
    """Give the key of all patterns of an operator; empty: there is none that they share."""
    keys = {key_name(pattern.partition_by) for pattern in spec.patterns.values()}
    if len(keys) != 1 or spec.shed_by is ShedBy.EVENT:
        return ""
    return keys.pop()
