"""A disk that is full, by what the operating system, Java and Python call it.

A quota and a limit on the size of files are no different: there is no room, and there may be
later.
"""

import os
import re
from errno import EDQUOT, EFBIG, ENOSPC

from shedlight.engines.spark.support.spark_errors import full_message

_NO_ROOM = re.compile(
    "|".join(re.escape(os.strerror(code)) for code in (ENOSPC, EDQUOT, EFBIG))
)


def is_disk_full(error: BaseException) -> bool:
    """Say whether something failed because there was no room for it on a disk.

    Example:
        >>> is_disk_full(OSError(28, "No space left on device", "plan/active"))
        True
    """
    return _NO_ROOM.search(full_message(error)) is not None
