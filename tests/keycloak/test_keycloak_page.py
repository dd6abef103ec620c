"""The commands of docs/keycloak.md against a real Keycloak."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.documentation.command_block_fixtures import blocks_below, page_shell
from tests.parts.keycloak import Keycloak

SECTION: Final = ("keycloak.md", "In Icekeeper")


@pytest.mark.part("shell")
def test_the_page_for_a_server_with_keycloak(tmp_path: Path, keycloak: Keycloak) -> None:
    with page_shell(tmp_path, instead={"http://127.0.0.1:8080": keycloak.base_url}) as shell:
        shell.run(blocks_below(*SECTION))
