"""How many statements the access pages run: the same number however many grants there are."""

from __future__ import annotations

from typing import Final

import pytest

from tests.console.access.conftest import SignIn
from tests.console.access.lake import Lake
from tests.harness.statement_counts import counting

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

EXPLAINED: Final = "?who=user:local~jun&action=read_grants"
COUNTS: Final = {
    "server": 6,
    "project": 18,
    "warehouse": 29,
    "sales": 30,
    "lines": 32,
    "analysts": 25,
    "lines?view=matrix": 35,
    "sales explained": 45,
    "lines explained": 48,
    "grants": 20,
    "review": 30,
    "reached": 38,
    "preview": 38,
}
"""Without cached permissions: a permission check is two statements, and every selector has its own."""


@pytest.mark.parametrize("page", COUNTS)
def test_statements_are_those_that_are_recorded(lake: Lake, sign_in: SignIn, page: str) -> None:
    client = sign_in("steward")
    who = "?who=user:local~jun"
    name, _, rest = page.partition("?")
    name, _, is_explained = name.partition(" ")
    address = {
        "grants": "/ui/access/?who=user:local~engineer",
        "review": f"/ui/access/review/{who}",
        "reached": f"/ui/access/review/{who}&warehouse={lake.warehouse.pk}",
    }.get(page) or f"{lake.url(name)}{EXPLAINED if is_explained else f'?{rest}' if rest else ''}"
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
