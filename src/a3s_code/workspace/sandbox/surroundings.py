"""The environment of a command in a sandbox. In: the host's variables, what the command adds. Out: what the launcher
gets, and what is set inside only.

One rule: nothing that the command's writer chose, and nothing that loads code, reaches the process that starts the
sandbox, since that one still stands outside.
Known weakness: a toolchain that is found through the home directory only, and not listed here, is not found.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from a3s_code.workspace.sandbox.scratch import Scratch

_POINT_HOME: Final = frozenset(
    "XDG_CONFIG_HOME XDG_CACHE_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS".split()
)
_LOAD_CODE: Final = ("LD_", "DYLD_", "BASH_FUNC_")
_STEER_SHELL: Final = frozenset("GLIBC_TUNABLES GCONV_PATH LOCPATH NLSPATH SHELLOPTS BASHOPTS IFS PS4 CDPATH".split())
# Where toolchains are that look below the home directory, which is an empty one inside.
_TOOLCHAINS: Final = {
    "RUSTUP_HOME": ".rustup",
    "CARGO_HOME": ".cargo",
    "PYENV_ROOT": ".pyenv",
    "PYTHONUSERBASE": ".local",
    "NVM_DIR": ".nvm",
    "VOLTA_HOME": ".volta",
    "RBENV_ROOT": ".rbenv",
    "GOMODCACHE": "go/pkg/mod",
    "GIT_CONFIG_GLOBAL": ".gitconfig",
}


def launcher_environment(env: Mapping[str, str], scratch: Scratch) -> dict[str, str]:
    """What the program that starts the sandbox gets, and the command inherits."""
    home = env.get("HOME") or os.path.expanduser("~")
    found = {name: f"{home}/{place}" for name, place in _TOOLCHAINS.items() if os.path.exists(f"{home}/{place}")}
    kept = {name: value for name, value in env.items() if name not in _POINT_HOME and not _loads_code(name)}
    own = {"HOME": scratch.home, "TMPDIR": scratch.tmp, "TMP": scratch.tmp, "TEMP": scratch.tmp}
    return {**found, **kept, **own}


def set_inside(env: Mapping[str, str], extra: Mapping[str, str]) -> list[str]:
    """The words of a command line that sets the rest once it is inside; none when there is nothing to set."""
    rest = {name: value for name, value in env.items() if _loads_code(name)} | dict(extra)
    return ["/usr/bin/env", "--", *(f"{name}={value}" for name, value in rest.items())] if rest else []


def _loads_code(name: str) -> bool:
    return name.startswith(_LOAD_CODE) or name in _STEER_SHELL
