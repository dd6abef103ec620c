"""Links, code paths and command names in the documentation exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documentation.command_block_fixtures import ROOT, pages

PAGES = [*pages(), ROOT / "CHANGELOG.md"]


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_headings_that_exist(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text().replace("\n", " ")):
        if re.match(r"https?://", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_each_page_is_in_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    pages_of_docs = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages_of_docs == {name for name in pages_of_docs if f"]({name})" in index}


def test_paths_on_the_page_on_development_exist() -> None:
    page = (ROOT / "docs/development.md").read_text()
    roots = "catalog|docker|docs|icekeeper|management|scripts|storage|tasks|tenancy|tests"
    named = set(re.findall(rf"`((?:{roots})/[\w./-]*)`", page))
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    assert len(named) > 60


def test_each_command_is_on_the_page_on_commands() -> None:
    page = (ROOT / "docs/commands.md").read_text()
    commands = {path.stem for path in (ROOT / "management/management/commands").glob("*.py")} - {"__init__"}
    assert sorted(commands - set(re.findall(r"`(\w+)", page))) == []
