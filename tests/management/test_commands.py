from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command

from storage.models import Warehouse
from tenancy.models import Project

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "ICEKEEPER", settings.ICEKEEPER.model_copy(update={"local_storage_root": tmp_path}))
    return tmp_path.resolve()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def test_bootstrap_says_so_the_second_time() -> None:
    assert run("bootstrap") == "The catalog is bootstrapped.\n"
    assert run("bootstrap") == "The catalog is bootstrapped already.\n"
    assert Project.objects.count() == 1


def test_a_warehouse_is_made_once(root: Path) -> None:
    run("bootstrap")
    command = ["create_warehouse", "wh", "--local-path", str(root / "wh")]
    assert f"lies at file://{root}/wh" in run(*command)
    assert run(*command, "--if-not-exists") == "Warehouse wh exists.\n"
    with pytest.raises(CommandError, match="already exists"):
        run(*command)
    with pytest.raises(CommandError, match="must lie below"):
        run("create_warehouse", "other", "--local-path", "/etc", "--if-not-exists")
    assert Warehouse.objects.count() == 1


def test_a_warehouse_needs_a_project(root: Path) -> None:
    with pytest.raises(CommandError, match="Project does not exist"):
        run("create_warehouse", "wh", "--local-path", str(root / "wh"))
