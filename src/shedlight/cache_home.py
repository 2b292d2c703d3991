"""Where is kept between runs what takes long to make: compiled kernels and parser tables."""

import os
from pathlib import Path


def cache_home() -> Path:
    """Give the folder, which may not be there yet."""
    home = os.environ.get("NUMBA_CACHE_DIR") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "shedlight"
    )
    return Path(home)
