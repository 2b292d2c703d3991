"""Tables of text with aligned columns, for terminals and files."""

from collections.abc import Iterable, Iterator, Sequence


def align_columns(
    rows: Iterable[Sequence[str]], *, left: int | None = 1, margin: int = 0
) -> Iterator[str]:
    """Pad cells so that columns align, two spaces apart, after so many spaces as a margin.

    The columns on the left are names, which align left (None: all); numbers align right.

    Example:
        >>> list(align_columns([["node", "busy"], ["edge", "7 %"]]))
        ['node  busy', 'edge   7 %']
    """
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    names = len(widths) if left is None else left
    for row in cells:
        padded = (
            cell.ljust(width) if number < names else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"{' ' * margin}{'  '.join(padded)}".rstrip()
