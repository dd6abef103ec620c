"""A signing key that can be guessed stops every command, whatever its origin."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUESSED = "canary"
TAKES = "expected: 32 or more random characters, 8 of them different, such as the output of `openssl rand -base64 48`"


def check(home: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    usual = {"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(home), "DJANGO_SETTINGS_MODULE": "icekeeper.settings"}
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT, env=usual | variables, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


def test_one_of_the_environment(tmp_path: Path) -> None:
    done = check(tmp_path, ICEKEEPER__SECRET_KEY=GUESSED)
    assert done.returncode == 1
    assert (done.stdout, done.stderr) == ("", f"icekeeper: ICEKEEPER__SECRET_KEY got a secret value; {TAKES}\n")


@pytest.mark.parametrize("held", ["", GUESSED])
def test_one_of_the_data_folder(tmp_path: Path, held: str) -> None:
    file = tmp_path / "secret-key"
    file.write_text(held)
    done = check(tmp_path)
    assert done.returncode == 1
    begins = f"icekeeper: {file} contains a weak key (docs/upgrade.md)"
    assert (done.stdout, done.stderr) == ("", f"{begins}; {TAKES}\n")


def test_a_missing_one_is_created_and_used(tmp_path: Path) -> None:
    assert check(tmp_path).returncode == 0
    created = (tmp_path / "secret-key").read_text()
    assert check(tmp_path).returncode == 0
    assert (tmp_path / "secret-key").read_text() == created
