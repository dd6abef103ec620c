"""A copy of a fixture equals what the fixture itself creates."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from tenancy.actor import INTERNAL
from tenancy.models import User
from tenancy.services.server import bootstrap
from tests.harness.fingerprint import take_fingerprint
from tests.harness.prepared import Key, Prepared, Recorded

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def apply(root: Path, recorded: dict[Key, Recorded]) -> list[str]:
    """Insert and update rows, create a folder and files; return the names of the fixtures whose functions were
    called.
    """
    called = []

    def first() -> None:
        called.append("first")
        bootstrap(actor=INTERNAL, accept_terms_of_use=True)
        User.objects.create(id="oidc~ann", name="Ann")

    def second() -> None:
        called.append("second")
        User.objects.filter(pk="oidc~ann").update(name="Anna")
        (root / "wh" / "empty").mkdir(parents=True)
        (root / "wh" / "file").write_bytes(b"\x00content")

    prepared = Prepared(root, recorded)
    prepared.empty_storage()
    prepared.create_or_copy("first", first)
    prepared.create_or_copy("second", second)
    return called


def test_a_copy_equals_the_original(tmp_path: Path) -> None:
    recorded: dict[Key, Recorded] = {}
    found = []
    for called in (["first", "second"], []):
        with transaction.atomic():
            assert apply(tmp_path / "root", recorded) == called
            assert (tmp_path / "root" / "wh" / "empty").is_dir()
            assert User.objects.get(pk="oidc~ann").name == "Anna"
            found.append(take_fingerprint(tmp_path / "root"))
            transaction.set_rollback(True)
    assert found[0] == found[1]
    assert found[0].files.keys() == {"wh/file"}


def test_a_record_of_one_state_is_not_copied_in_another(tmp_path: Path) -> None:
    recorded: dict[Key, Recorded] = {}
    with transaction.atomic():
        apply(tmp_path / "root", recorded)
        transaction.set_rollback(True)
    called = []
    Prepared(tmp_path / "root", recorded).create_or_copy("second", lambda: called.append("second"))
    assert called == ["second"]


def test_deleted_rows_cannot_be_recorded(bootstrapped: None, tmp_path: Path) -> None:
    prepared = Prepared(tmp_path, {})
    User.objects.create(id="oidc~ann", name="Ann")
    with pytest.raises(AssertionError, match="tenancy_user were deleted"):
        prepared.create_or_copy("deleted", lambda: User.objects.filter(pk="oidc~ann").delete())
