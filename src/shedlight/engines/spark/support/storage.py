"""Where a checkpoint is: a local folder, or a folder of any file system of Hadoop.

The driver alone reads and writes there. What has a name of its own is made by `create_file`,
and what is replaced, by `replace_file`; both show a file whole or not at all. A second driver,
if there ever is one, makes no file that is there: elsewhere that is an error, and here a lock
keeps it away.
"""

from pathlib import Path

from shedlight.engines.spark.session.paths import is_local, local_folder
from shedlight.engines.spark.support.atomic_file import write_atomically
from shedlight.engines.spark.support.hadoop_path import HadoopPath

StoredPath = Path | HadoopPath


def stored_path(text: str) -> StoredPath:
    """Find what a path or an address stands for."""
    return local_folder(text) if is_local(text) else HadoopPath(text.rstrip("/"))


def replace_file(path: StoredPath, content: str | bytes) -> None:
    """Write a file in the place of the one that is there, if there is one."""
    if isinstance(path, Path):
        write_atomically(path, content)
    else:
        path.write_whole(_to_bytes(content), replace=True)


def create_file(path: StoredPath, content: str | bytes) -> None:
    """Write a file that nobody has written.

    Raises:
        FileExistsError: Another driver has, elsewhere than in a local folder.
    """
    if isinstance(path, Path):
        write_atomically(path, content)
    else:
        path.write_whole(_to_bytes(content), replace=False)


def _to_bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content
