"""Compile the kernels before the tests: else each of their processes compiles them."""

from shedlight.engines.kernel_cache import compiled_kernels, load_kernels

if __name__ == "__main__" and not all(compiled_kernels().values()):
    print("compiling the matchers, once: it takes half a minute", flush=True)
    load_kernels()
