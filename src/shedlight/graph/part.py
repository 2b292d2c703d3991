"""What of an application concerns a node that runs by itself."""

from dataclasses import replace

from shedlight.errors import ApplicationError, known_names
from shedlight.graph.application import Application, Stream


def part_of(application: Application, node: str | None) -> Application:
    """Give an application with the sources and sinks of one node; None: of all.

    Its operators stay, for what one may shed depends on the others.
    """
    if node is None:
        return application
    own = [spec for spec in application.operators.values() if spec.node == node]
    read = {stream for spec in own for stream in spec.inputs}
    names = {spec.name for spec in own}
    return replace(
        application,
        sources={n: s for n, s in application.sources.items() if Stream(n) in read},
        sinks={n: s for n, s in application.sinks.items() if s.input.operator in names},
    )


def _check_part(application: Application, node: str) -> None:
    """See that a node can run by itself."""
    if node not in application.nodes:
        hint = known_names(node, application.nodes)
        raise ApplicationError(f"there is no node {node!r}; {hint}")
    specs = application.operators
    if not any(spec.node == node for spec in specs.values()):
        raise ApplicationError(f"node {node!r} has no operators, and nothing to do")
    if application.channels is not None:
        return
    remedy = "give the application `channels: {format: kafka, options: ...}`"
    for spec in specs.values():
        for stream in spec.inputs:
            other = specs[stream.operator].node if stream.operator else spec.node
            if other != spec.node and node in {other, spec.node}:
                raise ApplicationError(
                    f"operator {spec.name} on node {spec.node} reads {stream} of node {other}, "
                    f"and there is no channel between them; to run {node} alone {remedy}"
                )
    raise ApplicationError(
        f"node {node!r} has no way to its controller; run all nodes at once, or {remedy}"
    )


def alone(application: Application, node: str | None) -> Application:
    """Give an application as a node runs it by itself, and its controller; None: all at once.

    There is no unshed sample, for what it says takes the results of all nodes.

    Raises:
        ApplicationError: There is none of that name, it has nothing to do, or nodes have no
            channels.
    """
    if node is None:
        return application
    _check_part(application, node)
    return apart(application)


def apart(application: Application) -> Application:
    """Give an application as nodes that run by themselves have it, and their controller."""
    return replace(application, unshed_sample=0.0)


def without_ends(application: Application) -> Application:
    """Leave out sources and sinks, which the controller of nodes elsewhere need not reach."""
    return replace(application, sources={}, sinks={})
