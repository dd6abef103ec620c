"""Runs a command that can write no file, as in a container with a read-only root file system.

    python -m tests.parts.read_only FOLDER:... COMMAND ...

Uses Landlock (Linux 5.13 or newer), which needs no privileges; devices such as /dev/null and the given folders stay
writable.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import sys
from collections.abc import Sequence

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PR_SET_NO_NEW_PRIVS = 38
_PATH_BENEATH = 1
_WRITE_FILE = 1 << 1
_REMOVE_AND_CREATE = sum(1 << bit for bit in range(4, 13))
_O_PATH = 0o10000000
UNKNOWN_USER = 65532
"""The user id of containers; no machine has an account of this number."""


def read_only_command(*command: str, writable: Sequence[str] = ()) -> list[str]:
    """Return `command` restricted to writes in the folders `writable`, as a user without an account where user
    namespaces are permitted.
    """
    return unprivileged_command(sys.executable, __file__, ":".join(writable), *command)


def unprivileged_command(*command: str) -> list[str]:
    """Return `command` for a user without account and capabilities who owns the caller's files; where user namespaces
    are not permitted, `command` itself.
    """
    namespace = ["unshare", "--user", f"--map-user={UNKNOWN_USER}", f"--map-group={UNKNOWN_USER}"]
    is_permitted = subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode == 0
    return [*(namespace if is_permitted else []), *command]


def refuse_writes(writable: Sequence[str]) -> None:
    """Deny this process and its children all writes outside `writable`. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: object) -> int:
        result = libc.syscall(*arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock refuses")
        return int(result)

    handled_rights = _WRITE_FILE | _REMOVE_AND_CREATE
    handled = struct.pack("=Q", handled_rights)
    ruleset = call(_CREATE_RULESET, handled, len(handled), 0)
    for name in ("null", "zero", "urandom", "tty"):
        device = os.open(f"/dev/{name}", _O_PATH | os.O_CLOEXEC)
        call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", _WRITE_FILE, device), 0)
        os.close(device)
    for name in writable:
        folder = os.open(name, _O_PATH | os.O_CLOEXEC)
        call(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", handled_rights, folder), 0)
        os.close(folder)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl refuses")
    call(_RESTRICT_SELF, ruleset, 0)


def main(writable: str, *command: str) -> None:
    refuse_writes([name for name in writable.split(":") if name])
    os.execvp(command[0], command)  # noqa: S606 - the command of a test


if __name__ == "__main__":
    main(*sys.argv[1:])
