"""Rotation of the encryption key of a server: its processes need the key to start, and a rotation can be killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from icekeeper.kernel.json.strict import write_json
from tests.harness.run_environment import RunEnvironment
from tests.management.warehouse_request_fixtures import KEY, S3
from tests.parts.server import ROOT, CatalogServer
from tests.storage.test_key_rotation import NEW, OLD, key_id

KEEPING = {"LAKEKEEPER__PG_ENCRYPTION_KEY": OLD, "LAKEKEEPER__SKIP_STORAGE_VALIDATION": "true"}


def server_with_secrets(home: Path, run_environment: RunEnvironment) -> CatalogServer:
    """A stopped server whose database has 1,500 secrets of the key `OLD`, one of them used by a warehouse."""
    url = run_environment.own_database(home.name)
    server = CatalogServer(home, database_url=url, settings=KEEPING)
    server.prepare()
    (home / "profile.json").write_text(json.dumps(S3))
    (home / "key.json").write_text(json.dumps(KEY))
    server.manage("create_warehouse", "wh", "--profile", "profile.json", "--credential", "key.json")
    code = (
        "import json; from uuid import uuid4; from storage.models import Secret; "
        "from storage.secrets.database import KeyRing; from django.conf import settings; "
        "keys = KeyRing([settings.ICEKEEPER.pg_encryption_key.get_secret_value()]); "
        "Secret.objects.bulk_create(Secret(ciphertext=keys.encrypt(b'{}'), key_id=keys.first_id) for _ in range(1500))"
    )
    server.manage("shell", "-c", code)
    return server


def use(server: CatalogServer, key: str | None, *old: str) -> None:
    server._settings.pop("LAKEKEEPER__PG_ENCRYPTION_KEY", None)
    if key is not None:
        server._settings["LAKEKEEPER__PG_ENCRYPTION_KEY"] = key
        server._settings["ICEKEEPER__PG_ENCRYPTION_OLD_KEYS"] = write_json(list(old)).decode()


@pytest.mark.timeout(400)  # a dozen processes, one after the other
def test_processes_with_the_wrong_key_do_not_start_and_a_killed_rotation_resumes(
    tmp_path: Path, run_environment: RunEnvironment
) -> None:
    server = server_with_secrets(tmp_path, run_environment)
    use(server, NEW)
    for arguments in (["serve"], ["worker", "--once"]):
        done = server.run_command(*arguments)
        assert done.returncode == 1
        assert key_id(OLD) in done.stderr
        assert "ICEKEEPER__PG_ENCRYPTION_OLD_KEYS" in done.stderr
        assert "canary" not in done.stderr + done.stdout
    use(server, None)
    done = server.run_command("serve")
    assert done.returncode == 1
    assert "LAKEKEEPER__PG_ENCRYPTION_KEY, which they are encrypted with, is not set" in done.stderr
    use(server, NEW, OLD)
    with subprocess.Popen(
        [sys.executable, ROOT / "manage.py", "rotate_encryption_key"],
        env=server.environment, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
    ) as rotating:  # fmt: skip
        assert rotating.stderr is not None
        assert rotating.stderr.readline() == b"200 re-encrypted\n"
        rotating.kill()
    with_both = json.loads(server.manage("rotate_encryption_key", "--dry-run", "--json"))
    left = with_both["credentials-by-key"]
    assert 0 < left[key_id(OLD)] < 1501
    assert sum(left.values()) == 1501
    done_now = json.loads(server.manage("rotate_encryption_key", "--json"))
    assert done_now["encrypted-anew"] == left[key_id(OLD)]
    assert done_now["credentials-by-key"] == {key_id(NEW): 1501}
    use(server, NEW)
    server.start().stop()
    assert "canary" not in server.log_path.read_text()
