"""The database is lost when a commit rechecks its permissions: nothing was sent, so the error is certain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from icekeeper.kernel import request_context
from tests.faults.lost_database_fixtures import lost
from tests.harness.fingerprint import Fingerprint
from tests.harness.wsgi_client import ApiClient, Response

pytestmark = pytest.mark.django_db

Created = dict[str, dict[str, Any]]


def _commit(catalog: ApiClient, *updates: dict[str, Any]) -> Response:
    return catalog.post("/namespaces/ns/tables/a", {"requirements": [], "updates": list(updates)})


def set_a_property(catalog: ApiClient, _: Created) -> Response:
    return _commit(catalog, _PROPERTY)


def move(catalog: ApiClient, created: Created) -> Response:
    return _commit(catalog, {"action": "set-location", "location": f"{created['a']['metadata']['location']}-2"})


def change_two(catalog: ApiClient, _: Created) -> Response:
    changes = [
        {"identifier": {"namespace": ["ns"], "name": name}, "requirements": [], "updates": [_PROPERTY]}
        for name in ("a", "b")
    ]
    return catalog.post("/transactions/commit", {"table-changes": changes})


_PROPERTY = {"action": "set-properties", "updates": {"k": "v"}}


@pytest.mark.parametrize("act", [set_a_property, move, change_two])
def test_a_commit_is_to_be_tried_again_and_leaves_no_file(
    catalog: ApiClient,
    create_table: Callable[..., dict[str, Any]],
    files: Callable[[], list[str]],
    everything: Callable[[], Fingerprint],
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[ApiClient, Created], Response],
) -> None:
    created, seen = {name: create_table(name) for name in ("a", "b")}, []
    written, before = files(), everything()

    def look_and_lose() -> None:
        seen.append(len(files()) > len(written))
        raise lost()

    with monkeypatch.context() as patched:
        patched.setattr(request_context, "recheck_permissions", look_and_lose)
        response = act(catalog, created)
    assert response.refused(409, "CommitFailedException", "nothing was committed, try again")
    assert seen == [True], "it looks once, when the files are there"
    assert everything() == before
    response = act(catalog, created)
    assert response.status in {200, 204}, response.body
