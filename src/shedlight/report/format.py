"""Numbers, times and foreign text as people read them."""

import html
import unicodedata
from datetime import UTC, datetime

_MAX_LENGTH = 300
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def sanitize(text: str, max_length: int = _MAX_LENGTH) -> str:
    """Take out of a foreign text what is not to be seen, and what is too much.

    Example:
        >>> sanitize("a" + chr(0x202E) + "b" + chr(10) + "c")
        'a\ufffdb c'
    """
    spaced = " ".join(text[: 4 * max_length].split())
    visible = "".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in spaced)
    return visible if len(visible) <= max_length else visible[: max_length - 1] + "…"


def escape(text: str, max_length: int = _MAX_LENGTH) -> str:
    """Write a foreign text so that a browser shows it, and does nothing else with it."""
    return html.escape(sanitize(text, max_length), quote=True)


def count(number: float, noun: str = "") -> str:
    """Write a number of things.

    Example:
        >>> count(1, "micro-batch"), count(12345, "event")
        ('1 micro-batch', '12,345 events')
    """
    if not noun:
        return f"{number:,.0f}"
    ending = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:,.0f} {noun}{ending}"


def percent(share: float) -> str:
    """Write a share; what is not quite nothing or not quite all is not written as such.

    Example:
        >>> percent(0.1234), percent(0.0004), percent(0.9999), percent(1)
        ('12%', '<0.1%', '>99.9%', '100%')
    """
    if 0 < share < 0.001:  # noqa: PLR2004
        return "<0.1%"
    if 0.999 < share < 1:  # noqa: PLR2004
        return ">99.9%"
    number = 100 * share
    return f"{number:.0f}%" if number >= 10 or number == int(number) else f"{number:.1f}%"  # noqa: PLR2004


def seconds(time: float) -> str:
    """Write how long something took.

    Example:
        >>> seconds(0.0123), seconds(12.345), seconds(98), seconds(9000)
        ('12 ms', '12.3 s', '1 min 38 s', '2 h 30 min')
    """
    if time < 1:
        return f"{time * 1000:.0f} ms"
    if time < _MINUTE:
        return f"{time:.1f} s"
    whole = round(time)
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def offset(time: float) -> str:
    """Write how far into a run something was.

    Example:
        >>> offset(18.5), offset(75), offset(3725), offset(200000)
        ('0:18', '1:15', '1:02:05', '2 d 7:33')
    """
    whole = int(max(0.0, time))
    minutes, hours = whole % _HOUR // _MINUTE, whole // _HOUR
    if whole < _HOUR:
        return f"{minutes}:{whole % _MINUTE:02}"
    if whole < _DAY:
        return f"{hours}:{minutes:02}:{whole % _MINUTE:02}"
    return f"{whole // _DAY} d {hours % 24}:{minutes:02}"


def moment(time: float) -> str:
    """Write a time of day, in UTC.

    Example:
        >>> moment(1794769687.3)
        '2026-11-15 19:08:07 UTC'
    """
    try:
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{time:g} s since 1970"


def short(value: float) -> str:
    """Write a number at an axis.

    Example:
        >>> [short(value) for value in (0, 0.25, 1500, 20000, 3e6)]
        ['0', '0.25', '1.5k', '20k', '3M']
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
