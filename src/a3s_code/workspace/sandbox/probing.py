"""A place to try a sandbox in. In: nothing. Out: a small workspace with a file that must stay unwritten.

One rule: what is tried is the real thing: the same command line, the same filter, a real command.
Known weakness: it shows that writing is confined; that reading and sockets are, only the tests show.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator

from a3s_code.ports.sandbox import SandboxPolicy
from a3s_code.workspace.sandbox.scratch import Scratch


@contextlib.contextmanager
def probing_ground() -> Iterator[SandboxPolicy]:
    """A policy whose one read-only file is ``read-only`` in the workspace."""
    with tempfile.TemporaryDirectory(prefix="a3s-probe-") as made:
        place = os.path.realpath(made)
        workspace = f"{place}/workspace"
        os.mkdir(workspace)
        with open(f"{workspace}/read-only", "x"):
            pass
        scratch = Scratch(f"{place}/scratch")
        yield SandboxPolicy(
            workspace=workspace,
            writable=(workspace, *scratch.writable),
            read_only=(f"{workspace}/read-only",),
            masked=(),
            network=False,
            scratch=scratch.path,
        )
