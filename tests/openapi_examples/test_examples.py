"""The examples of the OpenAPI documents are what the server is asked and answers, and fit what the documents say.

They change only on purpose: `UPDATE_OPENAPI_EXAMPLES=1` writes those anew that have changed, and `make openapi` then
puts them into the documents.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from pydantic import AnyHttpUrl

from icekeeper.kernel import clock as kernel_clock
from management.api import openapi, server
from management.api.openapi_examples import FOLDER, Exchanges, read_exchanges
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tenancy.services.bootstrap import bootstrap
from tests.management.asking import keep_secrets, use_settings
from tests.openapi_examples import catalog_story, generic_table_story, management_story, warehouse_story
from tests.openapi_examples.story import Clock, Story
from tests.token_fixtures import new_token

pytestmark = pytest.mark.django_db


def a_warehouse(story: Story) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    profile = {"type": "local", "path": f"{story.folder}/lakehouse"}
    create_warehouse(actor=INTERNAL, project=get_project(None), name="lakehouse", storage_profile=profile)


STORIES: dict[str, list[Callable[[Story], None]]] = {
    "catalog": [a_warehouse, catalog_story.play],
    "generic-tables": [a_warehouse, generic_table_story.play],
    "management": [management_story.play, warehouse_story.play],
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(kernel_clock, "datetime", made)
    monkeypatch.setattr(timezone, "now", lambda: made.at)
    monkeypatch.setattr(time, "time", made.time)
    monkeypatch.setattr(time, "time_ns", made.time_ns)
    return made


@pytest.fixture
def tell(clock: Clock, access_tokens: None, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plays a story of the document that is named, to its end, and gives what was recorded."""
    keep_secrets(monkeypatch)
    address = AnyHttpUrl("https://icekeeper.example.com")
    use_settings(monkeypatch, instance_admins=["local~alice"], base_uri=address, enable_aws_system_credentials=True)
    monkeypatch.setattr(server, "commit_sha", lambda: None)

    def tell(name: str) -> Exchanges:
        story = Story(name, new_token(name="first"), storage_root, clock)
        for part in STORIES[name]:
            part(story)
        return story.exchanges

    return tell


@pytest.mark.parametrize("name", openapi.APIS)
def test_examples_are_as_recorded(name: str, tell: Callable[[str], Exchanges]) -> None:
    recorded, known = tell(name), read_exchanges(name)
    if os.environ.get("UPDATE_OPENAPI_EXAMPLES") == "1":
        # What is still true stays as it is written, in whatever order a database gave its members.
        known = {key: known[key] if known.get(key) == recorded[key] else recorded[key] for key in sorted(recorded)}
        (FOLDER / f"{name}.json").write_text(json.dumps(known, indent=2) + "\n")
    assert recorded.keys() == known.keys()
    for operation_id, exchanges in recorded.items():
        assert exchanges == known[operation_id], operation_id
