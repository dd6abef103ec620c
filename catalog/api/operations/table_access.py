from __future__ import annotations

from catalog.api.operations.tables import TABLE
from catalog.api.operations.tabulars import credentials

load_credentials = credentials("loadCredentials", TABLE)
