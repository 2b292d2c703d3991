"""The command in a process of its own: `shedlight`, or `python -m shedlight.cli`."""

import atexit
import gc
import sys
from importlib import import_module

from shedlight.cli.main import main


class _WithoutPandas:
    """Finds no pandas, for Arrow, which would load it to ask whether a list is one of its."""

    def find_spec(self, name: str, *_: object) -> None:
        """Say that pandas is not there; others may find what it is not asked for."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def start() -> None:
    """Run the command line; what is matched in files needs no pandas, which takes 0.4 s.

    Nor is what is in memory at its end looked through for cycles, which takes 0.2 s.
    """
    if sys.argv[1:2] == ["match"]:
        atexit.register(gc.freeze)
        finder = _WithoutPandas()
        sys.meta_path.insert(0, finder)
        import_module("pyarrow").array([])  # it looks for pandas once
        sys.meta_path.remove(finder)
    main()


if __name__ == "__main__":
    start()
