"""Events in the console: newest first, filters, pages, following, and one event as JSON."""

from __future__ import annotations

import re

import pytest

from events import outbox
from storage.models import Warehouse
from tenancy.models import AuditRecord, OutboxEvent, OutboxState
from tests.console.conftest import Open
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.events.event_fixtures import update

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]


@pytest.fixture
def lead(grants: None, ids: Ids, open_as: Open) -> Browser:  # noqa: F811
    return open_as("lead")


def positions(page: Page) -> list[int]:
    """Return the positions of the events on a page."""
    assert page.status == 200, page.text[:2000]
    return [int(each) for each in re.findall(r'href="/ui/event/(\d+)/', page.text)]


def write(ids: Ids, count: int) -> list[int]:  # noqa: F811
    """Write events of tables of the warehouse, and return their positions, the newest first."""
    warehouse = Warehouse.objects.get(pk=ids.warehouse)
    update(*(f"t{number}" for number in range(count)), warehouse=warehouse.pk, project=ids.project)
    return list(OutboxEvent.objects.order_by("-position").values_list("position", flat=True)[:count])


def test_events_are_listed_newest_first_in_pages(lead: Browser, ids: Ids) -> None:  # noqa: F811
    expected = write(ids, 120)
    own = f"/ui/event/?warehouse={ids.warehouse}&type=updateTable"
    first = lead.get(own)
    assert positions(first) == expected[:50]
    (older,) = re.findall(r'href="(\?[^"]*through=\d+)"', first.text)
    second = lead.get("/ui/event/" + older.replace("&amp;", "&"))
    assert positions(second) == expected[50:100]
    assert "Newest" in second.text
    third = lead.get(f"{own}&through={expected[100]}")
    assert positions(third) == expected[100:]
    assert "Older" not in third.text


def test_a_page_ends_after_a_limited_search(lead: Browser, ids: Ids, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    expected = write(ids, 30)
    monkeypatch.setattr(outbox, "MAX_SCANNED", 10)
    page = lead.get(f"/ui/event/?warehouse={ids.warehouse}&object=t0")
    assert positions(page) == []
    assert "No events match" in page.text
    (older,) = re.findall(r'href="(\?[^"]*through=\d+)"', page.text)
    assert f"through={expected[9] - 1}" in older
    last = lead.get(f"/ui/event/?warehouse={ids.warehouse}&object=t0&through={expected[-1]}")
    assert positions(last) == expected[-1:]


def test_filters_select_events(lead: Browser, ids: Ids) -> None:  # noqa: F811
    a, b = write(ids, 2)[::-1]
    at = f"/ui/event/?warehouse={ids.warehouse}"
    assert positions(lead.get(f"{at}&object=t1")) == [b]
    assert positions(lead.get(f"{at}&namespace=a.b&type=updateTable")) == [b, a]
    assert positions(lead.get(f"{at}&namespace=b")) == []
    for wrong in ("&type=created", "&warehouse=x", "&through=x", f"&through={9**30}"):
        assert lead.get(f"/ui/event/?project={ids.project}{wrong}").status == 400


def test_following_refreshes_the_newest_events(lead: Browser, ids: Ids) -> None:  # noqa: F811
    page = lead.get(f"/ui/event/?warehouse={ids.warehouse}&follow=1")
    source = re.search(r'data-live-src="(\?[^"]+)" data-live-seconds="2"', page.text)
    assert source is not None
    (newest,) = write(ids, 1)
    part = lead.get("/ui/event/" + source[1].replace("&amp;", "&"))
    assert positions(part)[0] == newest
    assert "<html" not in part.text
    assert 'data-live-src=""' in lead.get(f"/ui/event/?warehouse={ids.warehouse}").text


def test_one_event_is_json(lead: Browser, ids: Ids) -> None:  # noqa: F811
    (position,) = write(ids, 1)
    page = lead.get(f"/ui/event/{position}/?warehouse={ids.warehouse}")
    assert "&quot;of&quot;: &quot;t0&quot;" in page.text
    assert f"&quot;position&quot;: &quot;{position}&quot;" in page.text
    assert lead.get(f"/ui/event/{position}/?project={ids.project}").status == 200
    assert lead.get(f"/ui/event/{position + 1}/?project={ids.project}").status == 404
    assert lead.get(f"/ui/event/{9**30}/?project={ids.project}").status == 404
    assert lead.get(f"/ui/event/{position}/").status == 403


def test_users_see_events_of_what_they_may_read_alone(lead: Browser, ids: Ids, open_as: Open) -> None:  # noqa: F811
    (own,) = write(ids, 1)
    update("other", project="hidden")
    (other,) = OutboxEvent.objects.order_by("-position").values_list("position", flat=True)[:1]
    assert positions(lead.get("/ui/event/"))[0] == own
    assert lead.get("/ui/event/?project=hidden").status == 403
    assert lead.get(f"/ui/event/{other}/?project={ids.project}").status == 404
    engineer = open_as("engineer")
    for address in (f"?project={ids.project}", f"?warehouse={ids.warehouse}", ""):
        assert engineer.get(f"/ui/event/{address}").status in {403, 404}
    assert AuditRecord.objects.filter(event="access.denied").exists() is not None


def test_deleted_events_are_not_listed(lead: Browser, ids: Ids) -> None:  # noqa: F811
    expected = write(ids, 3)
    OutboxState.objects.update_or_create(
        pk=OutboxState.ONLY, defaults={"deleted_through": expected[1], "published_through": expected[0]}
    )
    page = lead.get(f"/ui/event/?warehouse={ids.warehouse}")
    assert positions(page) == expected[:1]
    assert "Older" not in page.text
