"""Whether a load looks if the metadata file is still there, although its bytes come from the database.

On local files the look costs one system call and finds files that somebody deleted behind the catalog's back, so there
it is on unless the profile says otherwise; on object stores it would cost a request to the store for each load.
"""

from __future__ import annotations

from typing import Any

VERIFY = "verify-metadata-on-load"


def verifies_metadata_on_load(profile: dict[str, Any]) -> bool:
    return bool(profile.get(VERIFY, profile.get("type") == "local"))
