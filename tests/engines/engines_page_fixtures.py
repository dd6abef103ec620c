"""Settings of engines, read from `docs/engines.md`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.harness.page_transcripts import section_of

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "engines.md").read_text()


def blocks_of_kind(section: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", section, re.DOTALL | re.MULTILINE)


def properties_of(section: str) -> list[dict[str, str]]:
    """Return the settings of each `properties` block, without comments."""
    blocks = [block.splitlines() for block in blocks_of_kind(section, "properties")]
    return [dict(line.split("=", 1) for line in lines if line and not line.startswith("#")) for lines in blocks]


def engine_section(name: str) -> str:
    return section_of(PAGE, f"## {name}")
