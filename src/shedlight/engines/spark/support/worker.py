"""What a function of ours does first in a Python worker of Spark, in each task.

This imports next to nothing, for it runs in processes that start often.
"""

import os
import sys
from zipimport import zipimporter

from shedlight.engines.spark.support.malloc import keep_memory


def prepare_worker() -> None:
    """Have this process keep its memory, and look into Spark's archives no more."""
    keep_memory()
    _forget_archives()


def _forget_archives() -> None:
    """Forget what has looked for modules in the archives of PySpark, until it is asked again.

    Before each task Spark has Python look again what there is to import. Of an archive that
    means to read its whole directory, once for each package of PySpark in it: 50 ms in all.
    """
    archive = getattr(getattr(sys.modules.get("pyspark"), "__loader__", None), "archive", None)
    if archive is None:  # it is not imported from one
        return
    folder = os.path.dirname(archive)  # noqa: PTH120  # pathlib takes long to import
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and finder.archive.startswith(folder):
            del sys.path_importer_cache[path]
