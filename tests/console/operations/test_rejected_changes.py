"""Changes in the console that a rule rejects, and their overrides."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape

import pytest

from catalog.models import ChangeRule, Namespace, Tabular
from storage.models import Warehouse
from tenancy.actor import Actor
from tenancy.models import AuditRecord, Securable
from tenancy.models.securable import ObjectRef
from tests.approval.conftest import CreateRule, create_rule  # noqa: F401 - a fixture
from tests.authz.tree_fixtures import give
from tests.console.conftest import Open
from tests.console.operations.test_change_rules import at, lead  # noqa: F401 - a fixture
from tests.console.operations.test_event_sinks import main_text
from tests.console.sign_in.browser import Browser, Page
from tests.console.test_rights import Ids, grants, ids  # noqa: F401 - fixtures
from tests.harness.fingerprint import Fingerprint
from tests.harness.named_callers import CallerClient

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.both_databases]

Everything = Callable[[], Fingerprint]
T = Securable.Type


@pytest.fixture
def naming(lead: Browser, create_rule: CreateRule) -> ChangeRule:  # noqa: F811
    return create_rule("naming", {"namespace": ["[a-z]+"]}, name="names")


@pytest.fixture
def owner(lead: Browser, warehouse: Warehouse, open_as: Open) -> Browser:  # noqa: F811
    """A user with all permissions on the warehouse but those on rules."""
    browser = open_as("owner")
    give("ownership", ObjectRef(T.WAREHOUSE, warehouse.pk), Actor(user_id="oidc~owner"))
    return browser


def test_the_form_of_a_rejected_change_has_what_was_entered(
    owner: Browser, naming: ChangeRule, warehouse: Warehouse, everything: Everything
) -> None:
    before, address = everything(), f"/ui/warehouse/{warehouse.pk}/add-namespace/"
    reason = "Rule 'names' rejects the change of namespace Sales-2: the name 'Sales-2' must match [a-z]+"
    page = owner.post(address, {"action": "create", "name": "Sales-2"})
    assert page.status == 409
    assert reason in main_text(page)
    assert 'value="Sales-2"' in page.text
    assert "override-reason" not in page.text
    refused = owner.post(address, {"action": "create", "name": "Sales-2", "override-reason": "I say so"})
    assert refused.status == 409
    assert "You may not override this" in main_text(refused)
    assert everything() == before


def test_the_properties_of_a_rejected_change_stay_in_the_form(
    owner: Browser, warehouse: Warehouse, create_rule: CreateRule, ids: Ids  # noqa: F811
) -> None:  # fmt: skip
    create_rule("required-properties", {"properties": {"owner": ["team"]}, "objects": ["namespace", "table"]})
    for path in (f"namespace/{ids.open}", f"table/{ids.tables['open']}"):
        address = f"/ui/warehouse/{warehouse.pk}/{path}/edit-properties/"
        version = owner.get(address).text.partition('name="version" value="')[2].partition('"')[0]
        page = owner.post(address, {"name-0": "owner", "value-0": "ann", "version": version or "1"})
        assert page.status == 409
        assert "the value of the property 'owner' must match team" in main_text(page)
        assert ">\nann</textarea>" in page.text


def test_a_user_with_the_permission_overrides(
    lead: Browser, naming: ChangeRule, warehouse: Warehouse  # noqa: F811
) -> None:  # fmt: skip
    address, form = f"/ui/warehouse/{warehouse.pk}/add-namespace/", {"action": "create", "name": "Sales-2"}
    page = lead.post(address, form)
    assert page.status == 409
    assert "A rule rejects the change" in main_text(page)
    assert '<textarea name="name" hidden>\nSales-2</textarea>' in page.text
    assert 'name="csrfmiddlewaretoken" value' in page.text
    assert not Namespace.objects.filter(path="Sales-2").exists()
    assert lead.post(address, form | {"override-reason": " "}).status == 409
    for invalid in ("x" * 201, "a\u200bb", "a\x07"):
        refused = lead.post(address, form | {"override-reason": invalid})
        assert refused.status == 400
        assert "Must be 1 to 200 characters, none of them invisible" in main_text(refused)
        assert '<textarea name="name" hidden>\nSales-2</textarea>' in refused.text
    assert lead.post(address, form | {"override-reason": "alter Name für Ämter"}).status == 302
    assert Namespace.objects.filter(path="Sales-2").exists()
    findings = main_text(lead.get(at(naming)))
    assert "overridden" in findings
    assert "Overridden because: alter Name für Ämter" in findings
    assert AuditRecord.objects.get(event="change.overridden").actor == "oidc~lead"


def sent_again(page: Page) -> dict[str, list[str]]:
    """Return the fields of the page that asks for a reason, as a browser sends them."""
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<textarea name="([^"]*)" hidden>\n(.*?)</textarea>', page.text, re.DOTALL):
        fields.setdefault(unescape(name), []).append(unescape(value))
    return fields


def test_all_fields_are_sent_again(
    lead: Browser, warehouse: Warehouse, create_rule: CreateRule, ids: Ids  # noqa: F811
) -> None:  # fmt: skip
    """Of a form with repeated fields, hostile values and a digest."""
    create_rule("protected", {"object-tag": "pii"}, name="<script>")
    create_rule("naming", {"namespace": ["[a-z]+"]})
    hostile = '"><script>alert(1)</script></textarea>{{ 7 }}'
    form = {"action": "create", "name": hostile, "more": ["a", "</textarea>\nc"]}
    page = lead.post(f"/ui/warehouse/{warehouse.pk}/add-namespace/", form)
    assert page.status == 409
    assert "<script>alert" not in page.text
    assert sent_again(page) == {"action": ["create"], "name": [hostile], "more": ["a", "</textarea>\nc"]}


def test_a_drop_of_several_tables_is_overridden(
    lead: Browser, warehouse: Warehouse, create_rule: CreateRule, ids: Ids, soft_delete: int  # noqa: F811
) -> None:  # fmt: skip
    manage = CallerClient("/management/v1", "lead")
    assert manage.post("/tag-definition", {"name": "pii", "scope": ["table"], "value-kind": "marker"}).status < 300
    table = f"/warehouse/{warehouse.pk}/table/{ids.tables['open']}"
    assert manage.put(f"{table}/tags/pii", {}).status == 200
    create_rule("protected", {"object-tag": "pii"})
    address = f"/ui/warehouse/{warehouse.pk}/namespace/{ids.open}/change/"
    chosen = {"do": "drop", "target": f"table:{ids.tables['open']}"}
    digest = lead.get(f"{address}?do=drop&target={chosen['target']}").field("digest")
    page = lead.post(address, chosen | {"digest": digest})
    assert page.status == 409
    assert Tabular.objects.get(uuid=ids.tables["open"]).deleted_at is None
    assert lead.post(address, sent_again(page) | {"override-reason": ["cleaned up"]}).status == 302
    assert Tabular.objects.get(uuid=ids.tables["open"]).deleted_at is not None
