"""How many statements the access pages run: the same number however many grants there are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from tests.console.access.conftest import SignIn
from tests.console.access.lake import Lake
from tests.console.test_query_counts import MAX_STATEMENTS
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
    "lines?view=matrix": 13,
    "sales explained": 14,
    "lines explained": 13,
    "grants": 13,
    "review": 14,
    "reached": 15,
    "lines previewed": 13,
    "sales previewed": 14,
    "warehouse previewed": 14,
    "project previewed": 14,
    "analysts previewed": 10,
    "new grant previewed": 15,
}
"""Without cached permissions: the grants of a user on an object and on those above it are read once a page."""


@pytest.mark.parametrize("page", COUNTS)
def test_statements_are_those_that_are_recorded(lake: Lake, sign_in: SignIn, page: str) -> None:
    client = sign_in("steward")
    who = "?who=user:local~jun"
    name, _, rest = page.partition("?")
    name, _, form = name.rpartition(" ") if " " in name else (name, "", "")
    reached = f"/ui/access/review/{who}&project={lake.warehouse.project_id}&warehouse={lake.warehouse.pk}"
    others = {
        "grants": "/ui/access/?who=user:local~engineer",
        "review": f"/ui/access/review/{who}",
        "reached": reached,
    }
    tab = lake.form(name, "explain") + EXPLAINED[name] if form == "explained" else others.get(page) or lake.url(name)
    address = f"{tab}?{rest}" if rest else tab
    marked = _marked(lake, name) if form == "previewed" else {}
    client.get(lake.url("lines"))
    for _ in range(2):
        with counting() as counted:
            if form == "previewed":
                response = client.post(lake.form("sales" if name == "new grant" else name, "preview"), marked)
            else:
                response = client.get(address)
        assert response.status_code == 200
        assert counted["statements"] == COUNTS[page] <= MAX_STATEMENTS
        lake.give("describe", "lines", "local~guest")
        lake.give("describe", "sales", "local~guest")


def _marked(lake: Lake, name: str) -> Mapping[str, Any]:
    """Return the form of a new grant, or a matrix where a user and a role gain and lose a privilege each."""
    if name == "new grant":
        return {"privilege": "modify", "grantee-choice": f"role:{lake.bi.pk}"}
    lost, gained = ("ownership", "assignee") if name == "analysts" else ("describe", "select")
    for who in ("local~engineer", lake.bi.pk):
        lake.give(lost, name, who)
    return {
        "had": [f"{lost} user:local~engineer", f"{lost} role:{lake.bi.pk}"],
        "on": [f"{gained} user:local~guest", f"{gained} role:{lake.bi.pk}"],
    }
