"""The README agrees with the pages that it summarizes: differences from Lakekeeper, ratios, settings for production."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.documentation.command_block_fixtures import ROOT

README = (ROOT / "README.md").read_text()
COMPATIBILITY = (ROOT / "docs/compatibility.md").read_text()
PERFORMANCE = (ROOT / "docs/performance.md").read_text()
PREFIXES = ("LAKEKEEPER__", "ICEKEEPER__", "ICEBERG_REST__")


def section(page: str, heading: str) -> str:
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return found[1]


def table(page: str, heading: str) -> list[str]:
    return [line for line in section(page, heading).split("\n") if line.startswith("|")]


def test_the_comparison_equals_the_compatibility_page() -> None:
    """Links are compared relative to the folder of the README."""
    links = {"](#": "](docs/compatibility.md#"}
    rows = "\n".join(table(COMPATIBILITY, "## In short"))
    rows = re.sub(r"\]\(([\w-]+\.md)", r"](docs/\1", rows)
    for here, there in links.items():
        rows = rows.replace(here, there)
    assert table(README, "## Compared with Lakekeeper") == rows.split("\n")


def test_missing_features_do_not_exist() -> None:
    """When a feature of a "Not yet" row is added, this test fails."""
    paths = json.loads((ROOT / "docs/openapi/catalog.json").read_text())["paths"]
    assert not [path for path in paths if "/plan" in path or "/functions" in path]
    assert not list((ROOT / "docker").rglob("Dockerfile*"))


def test_ratios_are_those_of_the_page_on_performance() -> None:
    ratios = re.findall(r"\| (\d\.\d\d)[ |]", section(README, "## Measured"))

    def cells(start: str) -> list[str]:
        (line,) = (each for each in PERFORMANCE.split("\n") if each.startswith(start))
        return [cell.strip() for cell in line.split("|")]

    lines = PERFORMANCE.split("\n")
    authorized = next(i for i, line in enumerate(lines) if line.startswith("| loadTable, 50 callers")) + 1
    rates = [int(cells(f"| set a property, ONE table, no retries | {clients} |")[3]) for clients in (32, 2)]
    assert ratios == [
        cells("| loadTable, 1,000 snapshots | 1 |")[6].split(" / ")[0],
        [cell.strip() for cell in lines[authorized].split("|")][5],
        f"{rates[0] / rates[1]:.2f}",
    ]


def test_settings_for_production_pass_the_deployment_checks(tmp_path: Path) -> None:
    (block,) = re.findall(r"^```\n(LAKEKEEPER__.*?)^```$", README, re.MULTILINE | re.DOTALL)
    settings = dict(line.split("=", 1) for line in block.strip().split("\n"))
    settings["LAKEKEEPER__PG_ENCRYPTION_KEY"] = os.urandom(32).hex()
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIXES)}
    inherited.pop("DJANGO_SETTINGS_MODULE", None)
    done = subprocess.run(
        [sys.executable, ROOT / "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        env=inherited | settings | {"ICEKEEPER__DATA_DIR": str(tmp_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout
