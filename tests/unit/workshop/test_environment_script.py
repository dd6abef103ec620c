"""`scripts/environment.py` reports in one line what is missing and how to install it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "environment.py"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose only requirement does not exist."""
    return create_checkout(tmp_path)


@pytest.fixture(scope="module")
def used_checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout that keeps the environment which the first test creates in it: that takes seconds of CPU."""
    return create_checkout(tmp_path_factory.mktemp("checkout"))


def create_checkout(folder: Path) -> Path:
    (folder / "scripts").mkdir()
    shutil.copy(SCRIPT, folder / "scripts")
    (folder / "requirements.txt").write_text("icekeeper-needs-a-missing-package==1\n")
    return folder


def run(checkout: Path, *names: str, prelude: str = "") -> subprocess.CompletedProcess[str]:
    program = f"import runpy, sys; sys.argv[1:] = {list(names)!r}\n{prelude}\n"
    program += f"runpy.run_path({str(checkout / 'scripts' / 'environment.py')!r}, run_name='__main__')"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_an_old_python_is_named(checkout: Path) -> None:
    done = run(checkout, "requirements.txt", prelude="sys.version_info = (3, 10, 4, 'final', 0)")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "needs Python 3.11 or newer" in done.stderr
    assert "is 3.10" in done.stderr


def test_a_python_without_ensurepip_is_named_with_its_cure(checkout: Path) -> None:
    hide = "import importlib.util; importlib.util.find_spec = lambda name: None"
    done = run(checkout, "requirements.txt", prelude=hide)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "apt install python3-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_missing_requirement_file_is_named(checkout: Path) -> None:
    done = run(checkout, "requirements-other.txt")
    assert done.returncode == 1
    assert "requirements-other.txt" in done.stderr


def test_a_failed_installation_is_one_line_and_is_tried_again(
    used_checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    for _ in range(2):
        done = run(used_checkout, "requirements.txt")
        assert done.returncode == 1
        assert done.stderr.count("\n") == 1
        assert "icekeeper-needs-a-missing-package" in done.stderr


def test_an_unchanged_second_call_does_not_touch_pip(used_checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (used_checkout / "requirements.txt").write_text("# nothing\n")
    assert run(used_checkout, "requirements.txt").returncode == 0
    (used_checkout / ".venv" / "pip.log").unlink(missing_ok=True)
    second = run(used_checkout, "requirements.txt")
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert not (used_checkout / ".venv" / "pip.log").exists()
    (used_checkout / "requirements.txt").write_text("icekeeper-needs-a-missing-package==1\n")
    assert run(used_checkout, "requirements.txt").returncode == 1
