"""The embedded default: `manage.py quickstart` in an empty folder, with SQLite, local files and no authentication."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Self

from tests.parts.server import CatalogServer


class EmbeddedServer(CatalogServer):
    """Runs with the settings of `make run`, and no others."""

    command: ClassVar[str] = "quickstart"

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._settings = {
            "ICEKEEPER__DATA_DIR": str(home / "state"),
            "ICEKEEPER__LOCAL_STORAGE_ROOT": str(self.storage_root),
            "LAKEKEEPER__BIND_IP": "127.0.0.1",
            "LAKEKEEPER__METRICS__PORT": "off",
        }

    def prepare(self) -> Self:
        """Do nothing: the command prepares the catalog."""
        return self

    def printed_address(self) -> str:
        """Return the one-time address that the server printed at its start."""
        (address,) = re.findall(r"console +(http://\S+code=\S+)", self.log_path.read_text())
        return str(address)
