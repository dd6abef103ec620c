"""The model of a view, and the result of an update on it."""

from __future__ import annotations

import copy
from typing import Any

from tests.model.table_model import Model

VERSIONS_KEPT = 10


def of_view(metadata: dict[str, Any]) -> Model:
    return {
        "uuid": metadata["view-uuid"],
        "location": metadata["location"],
        "properties": metadata.get("properties") or {},
        "versions": {each["version-id"]: each["representations"][0]["sql"] for each in metadata["versions"]},
        "current": metadata["current-version-id"],
        "log": [entry["version-id"] for entry in metadata["version-log"]],
    }


def view_changed(model: Model, updates: list[dict[str, Any]]) -> Model:
    """Return the view after a commit; an added version becomes the current one, and ten of them are kept."""
    after = copy.deepcopy(model)
    for update in updates:
        match update["action"]:
            case "set-properties":
                after["properties"].update(update["updates"])
            case "remove-properties":
                for key in update["removals"]:
                    after["properties"].pop(key, None)
            case "set-location":
                after["location"] = update["location"]
            case "add-view-version":
                new = max(after["versions"]) + 1
                after["versions"][new] = update["view-version"]["representations"][0]["sql"]
                after["current"] = new
                after["log"].append(new)
            case "set-current-view-version":
                assert update["view-version-id"] == -1
    for expired in sorted(after["versions"])[:-VERSIONS_KEPT]:
        del after["versions"][expired]
        after["log"] = after["log"][after["log"].index(expired) + 1 :]
    return after
