"""Statements and object-store calls of the first request to each management operation in the stories.

They include verifying the token of the story's user where the story has waited before.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.harness.openapi_documents import built_document
from tests.harness.statement_counts import Counts, counting, recorded, require_as_recorded
from tests.harness.wsgi_client import Response
from tests.openapi_examples.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


class CountedStory(Story):
    """Count the first successful request to each operation."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.counts: Counts = {}

    def _send(self, operation_id: str, parameters: dict[str, Any], body: Any) -> Response:
        with counting() as seen:
            response = super()._send(operation_id, parameters, body)
        if response.status < 400:
            self.counts.setdefault(operation_id, dict(sorted(seen.items())))
        return response


def test_counts_are_as_recorded(play_story: Any) -> None:
    require_as_recorded("management", play_story("management", CountedStory).counts)


def test_every_operation_is_in_the_record() -> None:
    paths = built_document("management").content["paths"]
    operations = {operation["operationId"] for item in paths.values() for operation in item.values()}
    for vendor, apis in recorded().items():
        assert apis["management"].keys() == operations, vendor
