"""How many statements the access pages run: the same number however many grants there are."""

from __future__ import annotations

from typing import Final

import pytest

from tests.console.access.conftest import SignIn
from tests.console.access.lake import Lake
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

EXPLAINED: Final = {"lines": "?who=user:local~jun&action=read_data", "sales": "?who=user:local~jun&action=get_metadata"}
COUNTS: Final = {
    "server": 5,
    "project": 9,
    "warehouse": 13,
    "sales": 11,
    "lines": 12,
    "analysts": 12,
    "lines?view=matrix": 15,
    "sales explained": 14,
    "lines explained": 13,
    "grants": 13,
    "review": 14,
    "reached": 15,
    "preview": 18,
}
"""Without cached permissions: the grants of a user on an object and on those above it are read once a page."""


@pytest.mark.parametrize("page", COUNTS)
def test_statements_are_those_that_are_recorded(lake: Lake, sign_in: SignIn, page: str) -> None:
    client = sign_in("steward")
    who = "?who=user:local~jun"
    name, _, rest = page.partition("?")
    name, _, is_explained = name.partition(" ")
    reached = f"/ui/access/review/{who}&project={lake.warehouse.project_id}&warehouse={lake.warehouse.pk}"
    others = {
        "grants": "/ui/access/?who=user:local~engineer",
        "review": f"/ui/access/review/{who}",
        "reached": reached,
    }
    tab = lake.form(name, "explain") + EXPLAINED[name] if is_explained else others.get(page) or lake.url(name)
    address = f"{tab}?{rest}" if rest else tab
    client.get(lake.url("lines"))
    for _ in range(2):
        with counting() as counted:
            if page == "preview":
                response = client.post(lake.form("lines", "preview"), {"on": [f"modify role:{lake.bi.pk}"]})
            else:
                response = client.get(address)
        assert response.status_code == 200
        assert counted["statements"] == COUNTS[page]
        lake.give("describe", "lines", "local~guest")
        lake.give("describe", "sales", "local~guest")
