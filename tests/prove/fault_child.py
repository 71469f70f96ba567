"""Children whose files may not grow. In: one JSON command a line. Out: what came of a session's life with that store.

One rule: the limit is the child's own, so nobody else meets it.
Known weakness: none known.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

sys.path.append(str(Path(__file__).parents[1] / "stores"))

from crash_child import Say, serve
from storehelp import AnyStore, maker
from storelife import lived

PAGE: Final = 4096


@contextlib.contextmanager
def full(path: Path, pages: int) -> Iterator[None]:
    """No file grows beyond ``pages`` more than ``path`` has now."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(path).st_size + pages * PAGE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


async def act(command: dict[str, Any], say: Say) -> None:
    """A session with an SQLite store, whose journal has room for some pages only while its second run is at work."""
    directory, pages = Path(command["workspace"]), int(command["pages"])

    def trouble(store: AnyStore) -> contextlib.AbstractContextManager[None]:
        return full(directory / "store.db-wal", pages)

    say(f"life {json.dumps(await lived(maker('sqlite', directory, str, ''), directory, trouble))}")


if __name__ == "__main__":
    serve(act)
