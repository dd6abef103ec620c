"""Links of Lakekeeper's console, lists of warehouses over many projects, shortcuts and the texts of scripts."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

from storage.selectors import list_warehouses_of_projects_for
from storage.services.warehouses import create_warehouse
from tenancy.actor import INTERNAL
from tenancy.authz.permission_epoch import permission_epoch
from tenancy.models import Project
from tenancy.models.securable import ObjectRef
from tenancy.services.projects import create_project
from tests.authz.conftest import user
from tests.authz.tree_fixtures import T, give
from tests.console.conftest import Open
from tests.console.test_rights import Ids, grants, ids, without_random_parts  # noqa: F401 - fixtures

pytestmark = [pytest.mark.django_db(databases="__all__")]

STATIC = Path(__file__).parents[3] / "management" / "static" / "console"


def test_links_of_lakekeeper_lead_to_the_page_of_the_object(
    grants: None,  # noqa: F811
    ids: Ids,  # noqa: F811
    open_as: Open,
) -> None:
    base = f"/ui/warehouse/{ids.warehouse}/namespace"
    engineer = open_as("engineer")
    wanted = {
        f"{base}/open": f"/ui/warehouse/{ids.warehouse}/namespace/{ids.open}/",
        f"{base}/OPEN/table/a": f"/ui/warehouse/{ids.warehouse}/table/{ids.tables['open']}/",
        f"{base}/open/view/v": f"/ui/warehouse/{ids.warehouse}/view/{ids.views['open']}/",
        f"{base}/open/generic-table/g/": f"/ui/warehouse/{ids.warehouse}/generic-table/{ids.generic_tables['open']}/",
    }
    assert {each: engineer.get(each).location for each in wanted} == wanted
    hidden = [engineer.get(f"{base}/{each}") for each in ("closed", "closed/table/a", f"closed{quote(chr(31))}deep")]
    unknown = engineer.get(f"{base}/nothing/table/{quote('a/<b>', safe='')}")
    inside_unknown = engineer.get(f"/ui/warehouse/{uuid4()}/namespace/open/table/a")
    for each in (*hidden, unknown, inside_unknown, engineer.get(f"{base}/open/column/a")):
        assert each.status == 404
        assert without_random_parts(each) == without_random_parts(unknown)


def test_warehouses_of_many_projects_are_one_list(
    grants: None,  # noqa: F811
    open_as: Open,
    storage_root: Path,
) -> None:
    for number in range(6):
        project = create_project(actor=INTERNAL, name=f"project {number}")
        profile = {"type": "local", "path": str(storage_root / f"far {number}")}
        create_warehouse(actor=INTERNAL, project=project, name=f"warehouse {number}", storage_profile=profile)
        give("project_admin", ObjectRef(T.PROJECT, project.pk), user("lead"))
    lead, guest = open_as("lead"), open_as("guest")
    counts = {}
    for address in ("/ui/catalog/", "/ui/warehouse/", "/ui/deleted/", "/ui/task/"):
        page = lead.get(address)
        assert "warehouse 0" in page.text, address
        assert "warehouse 5" in page.text, address
        assert "warehouse 0" not in guest.get(address).text
        permission_epoch.poll()
        lead.get(address)
        counts[address] = lead.get(address).statements
    assert max(counts.values()) <= 15, counts
    projects = list(Project.objects.order_by("created_at", "id"))
    found, has_more = list_warehouses_of_projects_for(actor=user("lead"), projects=projects, limit=3)
    assert (len(found), has_more) == (3, True)


def test_shortcuts_can_be_switched_off(grants: None, open_as: Open) -> None:  # noqa: F811
    engineer = open_as("engineer")
    page = engineer.get("/ui/")
    assert set(re.findall(r'data-section-key="(\w)"', page.text)) == {"o", "c", "d", "t", "a"}
    assert engineer.post("/ui/profile/", {"action": "switch-shortcuts", "shortcuts": "off"}).status == 302
    assert "ik-shortcuts" not in engineer.get("/ui/").text
    assert engineer.post("/ui/profile/", {"action": "switch-shortcuts", "shortcuts": "on"}).status == 302
    assert "ik-shortcuts" in engineer.get("/ui/").text


def test_scripts_have_no_text_of_their_own() -> None:
    """Texts come from templates, which translate them."""
    for script in STATIC.glob("*.js"):
        code = re.sub(r"(?m)^\s*//.*$|\s// .*$", "", script.read_text())
        texts = re.findall(r"[\"'`]([A-Z][a-z]+ [^\"'`]*)[\"'`]", code)
        assert texts == [], script.name
