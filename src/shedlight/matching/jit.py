"""Compiled code that is kept between runs.

numba keeps compiled functions on disk but does not notice when a function that they call has
changed in another file. So the folder is named after all kernels together: a change to any of
them compiles all of them anew, once. Where their sources are does not matter: another
environment with the same kernels has nothing to compile.

Before it looks whether something is kept, numba loads all that it can compile, which takes as
long as all else that a small file needs. `_QuickCache` looks first.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

from shedlight.cache_home import cache_home

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
    parts = [numba.__version__.encode(), *(path.read_bytes() for path in sources)]
    return cache_home() / f"kernels-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}"


def jit_inline(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function into the compiled functions that call it."""
    return _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False, forceinline=True)(
        function
    )


def jit_noinline(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function that compiled functions call, but seldom or from several places."""
    return _njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(function)


_intrinsic: Any = intrinsic  # its stubs do not know what becomes of a function
_void: Any = numba.types.void
_llvm: Any = ir
_code: Any = cgutils


def _write_stay_apart(_typing: object) -> tuple[object, Callable[..., Any]]:
    def write(context: Any, builder: Any, *_: object) -> object:  # noqa: ANN401  # numba's own
        builder.function.attributes.discard("alwaysinline")  # taken over from its first caller
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return _void(), write


stay_apart: Callable[[], None] = _intrinsic(_write_stay_apart)
"""Keeps the function that says it from being compiled into its callers: what is seldom run.

Without it every function is, at each call, and that is what takes time to compile.
"""


def _write_prefetch(
    _typing: object, array: object, index: object
) -> tuple[object, Callable[..., Any]]:
    def write(context: Any, builder: Any, signature: Any, arguments: Any) -> object:  # noqa: ANN401
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = _code.get_item_pointer(
            context, builder, signature.args[0], view, [arguments[1]], wraparound=False
        )
        whole = _llvm.IntType(32)
        pointer = builder.bitcast(place, _code.voidptr_t)
        data_type = _llvm.FunctionType(_llvm.VoidType(), [pointer.type, whole, whole, whole])
        function = _code.get_or_insert_function(builder.module, data_type, "llvm.prefetch.p0")
        builder.call(function, [pointer, whole(0), whole(3), whole(1)])
        return context.get_dummy_value()

    return _void(array, index), write


prefetch: Callable[[Array, int], None] = _intrinsic(_write_prefetch)
"""Asks for the row of an array that is read soon; the index may be out of the array."""


class _InOurFolder(InTreeCacheLocator):
    """Keeps what is compiled in the folder of this version of the kernels."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        super().__init__(function, file)  # type: ignore[no-untyped-call]
        self._cache_path = str(cache_folder() / Path(file).parent.name)


class _Files(CompileResultCacheImpl):
    _locator_classes = [_InOurFolder]  # noqa: RUF012  # as it is there


class _QuickCache(FunctionCache):
    """Functions that were compiled, loaded without what compiling needs."""

    _impl_class = _Files

    def load_overload(self, sig: object, target_context: object) -> object:
        """Load a function for data types; None if it is to be compiled."""
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)  # type: ignore[no-untyped-call]


def compiled(function: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Compile a function that Python calls, and keep the result on disk if possible."""
    dispatcher: Any = _njit(no_cfunc_wrapper=True)(function)
    new_cache: Any = _QuickCache
    with suppress(RuntimeError, OSError):  # a home that cannot be written to
        dispatcher._cache = new_cache(function)  # noqa: SLF001  # as `enable_caching` does
    result: Callable[_Arguments, _Result] = dispatcher
    return result


def _njit(
    **options: bool,
) -> Callable[[Callable[_Arguments, _Result]], Callable[_Arguments, _Result]]:
    compiler: Any = numba.njit  # its stubs do not know all of its options
    return compiler(nogil=True, error_model="numpy", **options)
