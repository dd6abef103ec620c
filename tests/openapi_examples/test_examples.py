"""The examples in the OpenAPI documents are the server's real requests and responses, and match the documents.

They change only on purpose: `UPDATE_OPENAPI_EXAMPLES=1` updates the changed ones, and `make openapi` then writes them
into the documents.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from management.openapi import documents as openapi
from management.openapi.examples import FOLDER, read_exchanges
from tests.openapi_examples.story import Story

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("name", openapi.APIS)
def test_examples_are_as_recorded(name: str, play_story: Any) -> None:
    recorded, known = play_story(name, Story).exchanges, read_exchanges(name)
    if os.environ.get("UPDATE_OPENAPI_EXAMPLES") == "1":
        # An equal example keeps its text, in whatever order a database returned its members.
        known = {key: known[key] if known.get(key) == recorded[key] else recorded[key] for key in sorted(recorded)}
        (FOLDER / f"{name}.json").write_text(json.dumps(known, indent=2) + "\n")
    assert recorded.keys() == known.keys()
    for operation_id, exchanges in recorded.items():
        assert exchanges == known[operation_id], operation_id
