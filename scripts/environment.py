"""Create `.venv/` and install requirement files into it; a call without changes does nothing.

    python3 scripts/environment.py requirements.txt requirements-dev.txt

Uses only the standard library, and its beginning parses on every Python 3, so that a machine without the prerequisites
gets a one-line error with a solution instead of a traceback.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this line is for the interpreters that are too old
    sys.exit(
        "Icekeeper needs Python 3.11 or newer, but %s is %d.%d. "  # noqa: UP031
        "Choose a newer one: `make PYTHON=python3.12` (Debian, Ubuntu: apt install python3)"
        % ((sys.executable,) + sys.version_info[:2])  # noqa: RUF005
    )

import fcntl
import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".venv"
PYTHON = HOME / "bin" / "python"
RECORD = HOME / "installed.json"
LOG = HOME / "pip.log"
CONSTRAINTS = ROOT / "constraints.txt"
VERSION = "{}.{}".format(*sys.version_info[:2])


def digest(requirements: Path) -> str:
    """Return a digest of a requirement file and of all pins."""
    content = requirements.read_bytes() + (CONSTRAINTS.read_bytes() if CONSTRAINTS.exists() else b"")
    return hashlib.sha256(content).hexdigest()


def is_usable() -> bool:
    """Return whether `.venv/` works and has the current version of Python."""
    command: list[str | Path] = [PYTHON, "-c", "import sys; print('{}.{}'.format(*sys.version_info[:2]))"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return False
    return found.stdout.strip() == VERSION


def read_record() -> dict[str, str]:
    """Return the digests of the installed requirement files by file name."""
    try:
        record: dict[str, str] = json.loads(RECORD.read_text())
    except (OSError, ValueError):
        return {}
    return record


def create_environment() -> None:
    """Replace `.venv/` by an empty environment."""
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} cannot create virtual environments: its module ensurepip is missing. "
            f"Debian, Ubuntu: apt install python3-venv (or python{VERSION}-venv)"
        )
    print(f"Creating .venv with Python {VERSION} ({sys.executable})", flush=True)
    shutil.rmtree(HOME, ignore_errors=True)
    created = subprocess.run([sys.executable, "-m", "venv", HOME], capture_output=True, text=True, check=False)
    if created.returncode:
        shutil.rmtree(HOME, ignore_errors=True)
        output = (created.stdout + created.stderr).strip().splitlines() or ["no output"]
        sys.exit(f"{sys.executable} -m venv failed: {output[-1]} (Debian, Ubuntu: apt install python3-venv)")


def install(requirements: list[Path]) -> None:
    """Install all files with one call of pip, so that their pins are resolved together; `LOG` gets its output."""
    names = ", ".join(file.name for file in requirements)
    print(f"Installing {names} into .venv (a few minutes the first time)", flush=True)
    command: list[str | Path] = [PYTHON, "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "--log", LOG]
    for file in requirements:
        command += ["-r", file]
    if CONSTRAINTS.exists():
        command += ["-c", CONSTRAINTS]
    LOG.unlink(missing_ok=True)
    done = subprocess.run(command, stdout=sys.stderr, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        reason = (errors or done.stderr.strip().splitlines() or ["pip gave no reason"])[0].removeprefix("ERROR: ")
        sys.exit(
            f"pip could not install {names}: {reason}. "
            f"Is the package index reachable (a proxy: HTTPS_PROXY, a mirror: PIP_INDEX_URL)? Full log of pip: {LOG}"
        )


def main(names: list[str]) -> None:
    requirements = [ROOT / name for name in names]
    missing = [file.name for file in requirements if not file.exists()]
    if missing or not names:
        sys.exit(
            f"environment.py needs requirement files of this folder; not found: {', '.join(missing) or 'none given'}"
        )
    # Kept until the process ends: another call waits, and then finds the environment complete.
    fcntl.flock(os.open(ROOT, os.O_RDONLY), fcntl.LOCK_EX)
    if not is_usable():
        create_environment()
    record = read_record()
    stale = [file for file in requirements if record.get(file.name) != digest(file)]
    if not stale:
        return
    # Files of earlier installations are passed again, so that pip keeps their pins.
    known = [ROOT / name for name in record if (ROOT / name).exists() and name not in names]
    install(requirements + known)
    record |= {file.name: digest(file) for file in requirements + known}
    RECORD.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
