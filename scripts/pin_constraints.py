"""Write `constraints.txt`: the exact version of everything that the requirement files pull in.

Made from a clean install, so that nothing left over from development slips in. It is a list of constraints, not of
requirements: a package that only some Python version or platform needs is pinned where it is needed and ignored
elsewhere, and one that this interpreter does not need is left to pip.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ("requirements.txt", "requirements-spark.txt", "requirements-dev.txt")
HEAD = f"""\
# Exact versions of everything {", ".join(REQUIREMENTS)} pull in. Made by `make constraints`; do not edit.
"""


def freeze() -> list[str]:
    """The lines of `pip freeze` in an environment that holds the requirement files and nothing else."""
    with tempfile.TemporaryDirectory(prefix="icekeeper-pins-") as folder:
        venv.create(folder, with_pip=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--disable-pip-version-check"]
        install = [word for name in REQUIREMENTS for word in ("-r", ROOT / name)]
        subprocess.run([*pip, "install", "--quiet", *install], check=True)
        frozen = subprocess.run([*pip, "freeze"], check=True, capture_output=True, text=True)
    return sorted(frozen.stdout.splitlines(), key=str.lower)


def main() -> int:
    try:
        pins = freeze()
    except subprocess.CalledProcessError as error:
        print(f"constraints.txt is unchanged: {error}", file=sys.stderr)
        return 1
    (ROOT / "constraints.txt").write_text(HEAD + "\n".join(pins) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
