"""Paths into JSON text, as `get_json_object` takes them: `$.order.items[0].price`."""

import re

_STEP = re.compile(r"[.]([A-Za-z_][A-Za-z_0-9]*)|\[([0-9]{1,9})\]|\['([^'\\\[\]]+)'\]")


def parse_json_path(path: str) -> tuple[str | int, ...]:
    """Read a path: the names of fields, and positions in arrays from 0 on.

    Raises:
        ValueError: It is none.

    Example:
        >>> parse_json_path("$.order.items[0]['unit price']")
        ('order', 'items', 0, 'unit price')
    """
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if not step:
            break
        name, position, quoted = step.groups()
        steps.append(int(position) if position else name or quoted)
        at = step.end()
    if not path.startswith("$") or at < len(path) or not steps:
        raise ValueError(
            "a path is $, then .name, ['any name'] or [0] for each step; without wildcards"
        )
    return tuple(steps)
