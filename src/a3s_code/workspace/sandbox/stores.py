"""Where a machine keeps credentials. In: home directories. Out: those of the known places that exist.

One rule: a place is masked as a whole; nobody looks for single secrets in it.
Known weakness: a list ages; a program that keeps a password at a place of its own is not known here.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from typing import Final

from a3s_code.core.protected import CREDENTIAL_DIRECTORIES

_IN_HOME: Final = (
    *("/".join(parts) for parts in CREDENTIAL_DIRECTORIES),
    *""".netrc .npmrc .pypirc .pgpass .git-credentials .yarnrc.yml .my.cnf .mylogin.cnf .s3cfg .boto .vault-token
    .terraformrc .terraform.d .azure .oci .bluemix .ibmcloud .databrickscfg .snowflake .huggingface/token
    .cache/huggingface/token .cargo/credentials .cargo/credentials.toml .gem/credentials .bundle/config
    .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties .composer/auth.json .subversion/auth
    .config/git/credentials .config/hub .config/glab-cli .config/op .config/1Password .config/doctl .config/heroku
    .config/rclone .config/configstore .config/composer/auth.json .config/containers/auth.json
    .config/pypoetry/auth.toml .config/google-chrome .config/chromium .config/BraveSoftware .mozilla .thunderbird
    .password-store .local/share/keyrings .local/share/kwalletd .local/share/python_keyring .age .config/sops
    .claude .claude.json .codex .a3s .config/a3s .bash_history .zsh_history .python_history .node_repl_history
    .psql_history .mysql_history .sqlite_history Library/Keychains Library/Cookies
    """.split(),
)
_ON_MACHINE: Final = (
    *"/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/sudoers /etc/sudoers.d /etc/ssl/private".split(),
    *"/etc/kubernetes /etc/security/opasswd /run/user /run/secrets /run/credentials /run/keys".split(),
    *"/run/docker.sock /run/podman /run/containerd /var/run/secrets /var/lib/docker /var/spool/mail".split(),
    *"/run/initctl /run/systemd/initctl".split(),  # pipes, which a read-only mount does not guard
    *"/proc/kcore /proc/keys /proc/kmsg /proc/sched_debug /proc/timer_list".split(),
)
_HOST_KEYS: Final = "/etc/ssh/ssh_host_*_key"


def homes(environ: Mapping[str, str]) -> list[str]:
    """The home directories whose stores this process could read; all of the machine's when it is root."""
    found = [environ.get("HOME", ""), os.path.expanduser("~")]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        found += ["/root", *glob.glob("/home/*")]
    return list(dict.fromkeys(os.path.realpath(home) for home in found if os.path.isabs(home) and home != "/"))


def credential_stores(homes: Iterable[str]) -> list[str]:
    """Real paths of the stores that exist."""
    places = [f"{home}/{name}" for home in homes for name in _IN_HOME]
    places += [*_ON_MACHINE, *glob.glob(_HOST_KEYS)]
    return list(dict.fromkeys(os.path.realpath(place) for place in places if os.path.lexists(place)))


def linked_files(stores: Iterable[str]) -> set[tuple[int, int]]:
    """Device and inode of the stores' files that have a second name somewhere."""
    found = set()
    for store in stores:
        entries: Iterable[str] = [store]
        if os.path.isdir(store):
            entries = (f"{directory}/{name}" for directory, _, names in os.walk(store) for name in names)
        for count, path in enumerate(entries):
            if count >= 1000:
                break
            try:
                status = os.lstat(path)
            except OSError:
                continue  # gone, or not ours to see: then not the command's either
            if status.st_nlink > 1:
                found.add((status.st_dev, status.st_ino))
    return found
