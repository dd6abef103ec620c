"""Fixtures: a fake token service and short timeouts for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings

from storage.identity import s3
from tests.storage.vending.fake_service import FakeService


@pytest.fixture
def service() -> Iterator[FakeService]:
    with FakeService() as running:
        yield running


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change `ICEKEEPER__STORAGE__*`, such as `limit(retries=0)`."""

    def change(**members: Any) -> None:
        own = settings.ICEKEEPER
        storage = own.storage.model_copy(update=members)
        s3._sts.cache_clear()  # clients read the limits when they are created
        monkeypatch.setattr(settings, "ICEKEEPER", own.model_copy(update={"storage": storage}))

    return change
