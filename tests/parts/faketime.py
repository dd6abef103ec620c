"""libfaketime: a process whose wall clock jumps. Monotonic clocks continue, as on a machine whose time is set."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from tests.parts.process import PartError

CURE = "Debian, Ubuntu: apt install libfaketime"
FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/local/lib")


def find_library() -> str | None:
    machine = sysconfig.get_config_var("MULTIARCH") or ""
    candidates = [Path(folder) / machine / "faketime/libfaketimeMT.so.1" for folder in FOLDERS]
    return next((str(path) for path in candidates if path.exists()), None)


class Clock:
    """The clock of the processes with `environment`; it has the right time until `jump`."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump("+0")

    @property
    def environment(self) -> dict[str, str]:
        library = find_library()
        if library is None:
            raise PartError(f"libfaketime is missing. {CURE}")
        return {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def jump(self, offset: str) -> None:
        """Set the difference from the right time, such as `+1h`."""
        self._file.write_text(f"{offset}\n")
