"""Commands of the documentation pages run and print the documented outputs.

`COMMANDS_ONLY` are sections whose outputs depend on the machine or on earlier commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.documentation.command_block_fixtures import PageShell, blocks_below, page_shell

pytestmark = [pytest.mark.part("shell"), pytest.mark.timeout(400)]  # all commands of several pages

ALONE: Final = [
    ("getting-started.md", "Keep a catalog running"),
    ("README.md", "A short tour"),
    ("getting-started.md", "Call the API with curl"),
    ("engines.md", "PyIceberg"),
    ("getting-started.md", "Create a second warehouse"),
    ("tags.md", "Create a tag and attach it"),
    ("events.md", "Create a sink by the API"),
    ("change-approval.md", "Keep schemas compatible"),
    ("change-approval.md", "Try a rule before it is enforced"),
    ("change-approval.md", "Override a rule"),
    ("change-approval.md", "Protect tables and columns by tags"),
    ("change-approval.md", "Require properties"),
    ("change-approval.md", "Require names that match a pattern"),
    ("change-approval.md", "Keep snapshots"),
    ("change-approval.md", "Let your own server decide"),
    ("users-and-roles.md", "Create a user"),
    ("users-and-roles.md", "Find a user"),
    ("users-and-roles.md", "Create a role and add members"),
    ("users-and-roles.md", "Give access to groups of an identity provider"),
    ("warehouses.md", "Projects"),
    ("engines.md", "Tables of other formats"),
    ("upgrade.md", "Maintenance mode"),
    ("limits.md", "Size and time limits"),
    ("high-availability.md", "Behind a load balancer"),
    ("commands.md", "Commands"),
    ("logs-and-metrics.md", "Metrics"),
    ("logs-and-metrics.md", "Statistics"),
    ("drops.md", "Drops and the worker"),
]
"""Run on one server without authentication, in this order."""

TEAM: Final = [
    ("getting-started.md", "A catalog for teams"),
    ("events.md", "Give a service account the events of one warehouse"),
    ("authorization.md", "Give a team read access to a namespace"),
    ("authorization.md", "Grant access for a limited time"),
    ("authorization.md", "List and revoke grants"),
    ("authorization.md", "Find out why a request is allowed or denied"),
    ("authorization.md", "Stop owners from granting"),
    ("audit.md", "Find who changed something"),
    ("audit.md", "Find who read a table in March"),
    ("audit.md", "Export the trail"),
]
"""Run on one server with access tokens, in this order."""

TOKENS: Final = [
    ("tokens.md", "Turn on authentication without an identity provider"),
    ("tokens.md", "Create a token for another user"),
    ("tokens.md", "Create a token for a pipeline"),
    ("tokens.md", "Rotate a token"),
]
"""Run on one server with access tokens, in this order."""

COMMANDS_ONLY: Final = {
    *TOKENS,
    ("audit.md", "Find who changed something"),
    ("audit.md", "Find who read a table in March"),
    ("audit.md", "Export the trail"),
    ("commands.md", "Commands"),
    ("logs-and-metrics.md", "Metrics"),
    ("logs-and-metrics.md", "Statistics"),
}

PREPARATION: Final = {
    ("audit.md", "Find who read a table in March"): [
        """table=$(ann $catalog/$orders/namespaces/shop/tables/sold | jq -r '.metadata["table-uuid"]')""",
    ],
    ("tokens.md", "Rotate a token"): [
        """ID=$(curl -s -H "Authorization: Bearer $TOKEN" $api/token | jq -r '.tokens[0].id')""",
    ],
    ("high-availability.md", "Behind a load balancer"): [
        "export ICEKEEPER__DATA_DIR=$PWD/.icekeeper ICEKEEPER__LOCAL_STORAGE_ROOT=$PWD/.icekeeper/storage",
        ".venv/bin/python manage.py create_warehouse demo --local-path $PWD/.icekeeper/storage/demo",
    ],
    ("commands.md", "Commands"): [
        ".venv/bin/python manage.py create_warehouse sales --local-path $PWD/.icekeeper/storage/sales",
    ],
}
"""What the page asks for in prose, or did on another page."""


def _run(shell: PageShell, sections: Sequence[tuple[str, str]]) -> None:
    for section in sections:
        shell.prepare(*PREPARATION.get(section, []))
        blocks = [block for block in blocks_below(*section) if "spark-sql" not in block.content]
        shell.run(blocks, with_responses=section not in COMMANDS_ONLY)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One checkout for all pages: each page continues where the previous one ended."""
    return tmp_path_factory.mktemp("checkout")


def test_the_pages_for_a_server_without_authentication(checkout: Path) -> None:
    with page_shell(checkout, instead={"/srv/warehouses": f"{checkout}/.icekeeper/storage"}) as shell:
        _run(shell, ALONE)


@pytest.mark.parametrize("sections", [TEAM, TOKENS], ids=["team", "tokens"])
def test_the_pages_for_a_server_with_access_tokens(checkout: Path, sections: Sequence[tuple[str, str]]) -> None:
    with page_shell(checkout) as shell:
        _run(shell, sections)
