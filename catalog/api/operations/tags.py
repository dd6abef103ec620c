"""By which the OpenAPI documents group operations: the specification's, and for generic tables the peer's."""

from __future__ import annotations

from typing import Final

CONFIGURATION: Final = ["Configuration API"]
OAUTH: Final = ["OAuth2 API"]
CATALOG: Final = ["Catalog API"]
GENERIC: Final = ["generic-table"]
