"""Fixtures of stories: a fixed clock, and a server whose responses are the same in every run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from django.utils import timezone
from pydantic import AnyHttpUrl

from icekeeper.kernel import clock as kernel_clock
from management.api.server import views as server
from storage.network import endpoints
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.selectors.projects import get_project
from tenancy.services.server import bootstrap
from tests.events.event_fixtures import SinkInMemory, accept, number_events_after
from tests.management.warehouse_request_fixtures import keep_secrets, use_settings
from tests.openapi_examples import (
    catalog_story,
    event_sink_story,
    generic_table_story,
    management_story,
    signing_story,
    warehouse_story,
)
from tests.openapi_examples.story import Clock, Story
from tests.token_fixtures import new_token

S = TypeVar("S", bound=Story)


def a_warehouse(story: Story) -> None:
    bootstrap(actor=INTERNAL, accept_terms_of_use=True)
    profile = {"type": "local", "path": f"{story.folder}/lakehouse"}
    create_warehouse(actor=INTERNAL, project=get_project(None), name="lakehouse", storage_profile=profile)


STORIES: dict[str, list[Callable[[Story], None]]] = {
    "catalog": [a_warehouse, catalog_story.play, signing_story.play],
    "generic-tables": [a_warehouse, generic_table_story.play],
    "management": [management_story.play, warehouse_story.play, event_sink_story.play],
}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(kernel_clock, "datetime", clock)
    monkeypatch.setattr(timezone, "now", lambda: clock.at)
    monkeypatch.setattr(time, "time", clock.time)
    monkeypatch.setattr(time, "time_ns", clock.time_ns)
    return clock


@pytest.fixture
def play_story(clock: Clock, access_tokens: None, storage_root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that plays all stories of a document with a `Story` of the given class."""
    keep_secrets(monkeypatch)
    address = AnyHttpUrl("https://icekeeper.example.com")
    use_settings(monkeypatch, instance_admins=["local~alice"], base_uri=address, enable_aws_system_credentials=True)
    monkeypatch.setattr(server, "commit_sha", lambda: None)
    monkeypatch.setattr(endpoints, "resolve", lambda endpoint, seconds: [])
    receiver = SinkInMemory(accept, keeps_order=True)
    monkeypatch.setattr("events.services.sinks.open_sink_of", lambda row: receiver)

    def play(name: str, kind: type[S]) -> S:
        number_events_after(0)
        story = kind(name, new_token(name="first"), storage_root, clock)
        for part in STORIES[name]:
            part(story)
        return story

    return play
