"""The OpenAPI document of the catalog agrees with the Iceberg REST specification, operation by operation."""

from __future__ import annotations

import re

from tests.harness.openapi_documents import built_document
from tests.iceberg_rest.specification_fixtures import SERVED, read_specification
from tests.management.api_digest import Body, Digest, Operation, digest

DEVIATIONS = {
    r"GET \S+/credentials: no query planId": "scans are not planned by the server",
    r"POST /v1/oauth/tokens: 200 lacks refresh_token": "tokens are renewed by token exchange",
    r"\S+ \S+: 200 lacks remote-signing-config(\..*)?": "settings of signers are in `config`",
    r"POST \S+/views/{}: request lacks identifier(\..*)?": "ignored: the path names the view",
    r"POST \S+/transactions/commit: request requires table-changes\[\]\.identifier(\..*)?": (
        "a transaction is for several tables; the text of the specification requires it, too"
    ),
    r"\S+ \S+: 200 metadata\.current-snapshot-id may be null": "as tables of version 3 write that there is none",
    r"\S+ \S+: 200 metadata\.versions\[\]\.default-catalog may be null": "as a registered metadata file may have it",
}
"""What a client of the specification misses or meets unexpectedly, and why."""


def ours() -> Digest:
    return {
        route.replace(" /catalog/", " /"): operation
        for route, operation in digest(built_document("catalog").content).items()
    }


def differences(theirs: Operation, here: Operation) -> set[str]:
    found = {f"no {name}" for name in set(theirs.parameters) - set(here.parameters)}
    request, expected = here.request, theirs.request
    found |= {f"request lacks {path}" for path in expected.members.keys() - request.members.keys()}
    found |= {f"request requires {path}" for path in set(request.required) - set(expected.required)}
    found |= {f"request {path} is never {kind}" for path, kind in kinds_beyond(expected, request)}
    for status, body in theirs.responses.items():
        if status not in here.responses:
            found.add(f"no {status}")
            continue
        response = here.responses[status]
        found |= {f"{status} lacks {path}" for path in body.members.keys() - response.members.keys()}
        promised = {path for path in body.required if path in response.members}
        found |= {f"{status} may lack {path}" for path in promised - set(response.required)}
        found |= {f"{status} {path} may be {kind}" for path, kind in kinds_beyond(response, body)}
    return found


def kinds_beyond(wide: Body, narrow: Body) -> set[tuple[str, str]]:
    """Return the types of members in `wide` that the same members in `narrow` do not have."""
    return {
        (path, kind)
        for path, kinds in wide.types.items()
        if path in narrow.types
        for kind in set(kinds) - set(narrow.types[path])
    }


def test_all_that_is_served_is_compared() -> None:
    assert read_specification().keys() == SERVED
    assert ours().keys() >= SERVED


def test_the_document_matches_the_specification() -> None:
    here = ours()
    found = {
        f"{route}: {difference}"
        for route, operation in read_specification().items()
        for difference in differences(operation, here[route])
    }
    unexplained = {each for each in found if not any(re.fullmatch(pattern, each) for pattern in DEVIATIONS)}
    assert unexplained == set()
    unused = {pattern for pattern in DEVIATIONS if not any(re.fullmatch(pattern, each) for each in found)}
    assert unused == set()
