"""Command names with underscores and with hyphens, which Lakekeeper's deployment files use."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from django.core.management import get_commands

from icekeeper.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[2]


def test_every_command_has_a_name_with_hyphens() -> None:
    ours = {name for name, app in get_commands().items() if app == "management"}
    assert {"serve", "wait_for_db", "rotate_encryption_key"} <= ours
    for name in ours:
        command = CommandLine(["manage.py"]).fetch_command(name.replace("_", "-"))
        assert type(command).__module__ == f"management.management.commands.{name}"


@pytest.mark.parametrize("arguments", [["wait-for-db", "--help"], ["help", "wait-for-db"], ["help", "wait_for_db"]])
def test_help_shows_the_name_that_was_typed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with suppress(SystemExit):
        CommandLine(["manage.py", *arguments]).execute()
    typed = next(each for each in arguments if each.startswith("wait"))
    assert capsys.readouterr().out.startswith(f"usage: manage.py {typed} [-h] [-d] [-m] [-r N] [-b SECONDS]")


def test_a_name_that_no_command_has(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        CommandLine(["manage.py", "wait-for-dbs"]).execute()
    assert end.value.code == 1
    assert "Unknown command: 'wait-for-dbs'. Did you mean wait_for_db?" in capsys.readouterr().err


def test_the_script_accepts_them(tmp_path: Path) -> None:
    environment = {"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "wait-for-db", "-dm", "-r", "0", "-b", "2"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Run: manage.py migrate" in done.stderr


@pytest.mark.parametrize("command", [["help"], ["show_config"], ["help", "serve"]])
def test_output_without_a_reader_ends_a_command_without_a_traceback(tmp_path: Path, command: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    try:
        done = subprocess.run(
            [sys.executable, "manage.py", *command], cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, text=True,
            env={"PATH": "/usr/bin:/bin", "ICEKEEPER__DATA_DIR": str(tmp_path)}, check=False, timeout=100,
        )  # fmt: skip
    finally:
        os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")
