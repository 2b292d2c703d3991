"""Compiled code that is kept between runs.

numba keeps compiled functions on disk but does not notice when a function that they call has
changed in another file. So the folder is named after all kernels together: a change to any of
them compiles all of them anew, once.
"""

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np

Array = np.ndarray[Any, Any]
idx: Callable[[Any], int] = np.uint64  # type: ignore[assignment]  # numba knows it as a type
"""Makes a number an index of an array: one that cannot count from the end."""
i64: Callable[[Any], int] = np.int64  # type: ignore[assignment]  # numba knows it as a type
"""Makes a number 64 bits wide, so that a compiled function is compiled for one width only."""

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


@cache
def cache_folder() -> Path:
    """Find the folder of this version of the kernels."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    home = os.environ.get("NUMBA_CACHE_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "shedlight"
    )
    return Path(home) / f"kernels-{digest}"


def is_first_run() -> bool:
    """Whether the kernels have never been compiled on this machine."""
    folder = cache_folder()
    return not folder.exists() or not any(folder.rglob("*.nbc"))


def jit_inline(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function into the compiled functions that call it."""
    return _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)(
        function
    )


def jit_noinline(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function that compiled functions call, but seldom or from several places."""
    return _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(function)


def compiled(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function that Python calls, and keep the result on disk if possible."""
    settings: Any = numba.config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(cache_folder())
    try:
        return _njit(cache=True, no_cfunc_wrapper=True)(function)
    except (RuntimeError, OSError):  # a home that cannot be written to
        return _njit(no_cfunc_wrapper=True)(function)
    finally:
        settings.CACHE_DIR = before


def _njit(
    **options: bool,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    compiler: Any = numba.njit  # its stubs do not know all of its options
    return compiler(nogil=True, error_model="numpy", **options)
