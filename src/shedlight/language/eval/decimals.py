"""Decimals as bytes: to be sorted by, and to be hashed as Spark hashes them."""

from decimal import Context, Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shedlight.language.eval.column import DECIMAL

_WIDTH = 16  # bytes of a decimal
_SIGN = 1 << 127
_EXACT = Context(prec=60)  # more digits than a decimal has
_HEXADECIMAL = np.frombuffer(b"".join(f"{byte:02x}".encode() for byte in range(256)), "S2")

Bytes = npt.NDArray[np.uint8]


def sortable_texts(decimals: pa.Array) -> pa.Array:
    """Write decimals as texts that are in the same order."""
    flipped = _big_endian(decimals).copy()
    flipped[:, 0] ^= 0x80
    digits = _HEXADECIMAL[flipped].view(np.uint8).reshape(-1)
    offsets = np.arange(0, len(digits) + 1, 2 * _WIDTH, dtype=np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(digits)]
    return pa.Array.from_buffers(pa.large_string(), len(decimals), buffers)


def sortable_text(value: Decimal | int) -> str:
    """Write one decimal in the same way."""
    return f"{int(_EXACT.scaleb(Decimal(value), DECIMAL.scale)) + _SIGN:032x}"


def shortest_bytes(decimals: pa.Array) -> tuple[npt.NDArray[np.int64], Bytes]:
    """Give the fewest bytes that each decimal, as a whole number with a sign, fits in.

    It is Java's `BigInteger.toByteArray`: where each begins, the last place being the end of
    all, and the bytes, the highest first.
    """
    whole = _big_endian(decimals)
    sign = np.where(whole[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
    is_sign = whole[:, :-1] == sign
    fits_below = ((whole[:, 1:] ^ sign) & 0x80) == 0
    skipped = np.cumprod(is_sign & fits_below, axis=1).sum(axis=1)
    kept = np.arange(_WIDTH) >= skipped[:, None]
    offsets = np.concatenate([[0], np.cumsum(_WIDTH - skipped)]).astype(np.int64)
    return offsets, whole[kept]


def _big_endian(decimals: pa.Array) -> Bytes:
    """Give the bytes of each decimal, the highest first; of a null, any."""
    start, end = decimals.offset * _WIDTH, (decimals.offset + len(decimals)) * _WIDTH
    values = np.frombuffer(decimals.buffers()[1] or b"", np.uint8)[start:end]
    return values.reshape(-1, _WIDTH)[:, ::-1]
