"""The pages of a view: the tables that its SQL names, and the comparison of two versions."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.authz.conftest import VIEW, good
from tests.console.conftest import Open
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.named_callers import CallerClient

pytestmark = pytest.mark.django_db(databases="__all__")

HOSTILE = "<img src=x onerror=alert(1)>"
SQL = f"""WITH hot AS (SELECT * FROM a)
SELECT *
  FROM hot JOIN open.b ON true -- {HOSTILE}
  JOIN wh.open.v JOIN closed.a JOIN closed.nothing JOIN other.open.a JOIN `{HOSTILE}`"""  # noqa: S608 - executed nowhere


@pytest.fixture
def versions(root: CallerClient, lake: dict[str, Any]) -> None:
    """Give the view `open.v` a second version, in two dialects, with another schema."""
    schema = {"type": "struct", "fields": [{"id": 7, "name": "total", "type": "long", "required": False}]}
    representations = [{"type": "sql", "sql": SQL, "dialect": "spark"}, {"type": "sql", "sql": "(" * 9, "dialect": "x"}]
    version = VIEW["view-version"] | {
        "version-id": 2,
        "schema-id": -1,
        "default-namespace": ["open"],
        "representations": representations,
    }
    updates = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": version},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    good(root.post("/namespaces/open/views/v", {"requirements": [], "updates": updates}))


def sources(page: str) -> dict[str, str]:
    """Return the names that the view reads from, each with the address of its link."""
    (listed,) = re.findall(r"<h2>Reads from</h2>(.*?)</section>", page, re.DOTALL)
    return {
        name: "".join(re.findall(r'<a [^>]*href="(/[^"]*)"', item))
        for item in re.findall(r"<li>(.*?)</li>", listed)
        for name in re.findall(r'class="ik-mono">(.*?)</span>', item)
    }


def test_the_tables_of_a_view_are_links_if_they_are_visible(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    versions: None,
) -> None:
    address, base = f"/ui/warehouse/{ids.warehouse}/view/{ids.views['open']}/", f"/ui/warehouse/{ids.warehouse}"
    hostile = "&lt;img src=x onerror=alert(1)&gt;"
    found = sources(open_as("engineer").get(address).text)
    assert found.pop("open.b").startswith(f"{base}/table/")
    expected = {
        "a": f"{base}/table/{ids.tables['open']}/",
        "wh.open.v": address,
        "closed.a": "",
        "closed.nothing": "",
        "other.open.a": "",
        hostile: "",
    }
    assert found == expected
    lead = open_as("lead").get(address)
    found = sources(lead.text)
    assert found["closed.a"] == f"{base}/table/{ids.tables['closed']}/"
    assert found["closed.nothing"] == ""
    assert "This SQL names no table." in lead.text
    assert lead.statements <= 15


def test_versions_of_a_view_are_compared(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
    versions: None,
) -> None:
    engineer = open_as("engineer")
    address = f"/ui/warehouse/{ids.warehouse}/view/{ids.views['open']}/versions/"
    assert "SQL from version" not in engineer.get(address).text
    page = engineer.get(f"{address}?compare=1&version=2").text
    assert page.count("SQL from version 1 to 2") == 2
    assert re.search(r'class="ik-change--dropped"><td[^>]*>1</td><td[^>]*></td><td[^>]*>-</td><td[^>]*>SELECT 1<', page)
    assert re.search(r'class="ik-change--added"><td[^>]*></td><td[^>]*>2</td><td[^>]*>\+</td><td[^>]*>SELECT \*<', page)
    assert HOSTILE not in page
    for text in ("Changes from schema 0 to 1", "total", "default-namespace", " → open"):
        assert text in page, text
    assert "No differences." in engineer.get(f"{address}?compare=2&version=2").text
    for query in ("?compare=1&version=7", "?compare=x&version=1"):
        assert engineer.get(f"{address}{query}").status == 404
    other = f"/ui/warehouse/{ids.warehouse}/view/{ids.views['closed']}/versions/?compare=1&version=1"
    assert engineer.get(other).status == 404
