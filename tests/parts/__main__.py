"""`make parts`: fetch what the tests need and this machine lacks, then say what is there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from tests.parts import azurite, fake_gcs, keycloak, minio, opa, openfga, postgres, rck, registry, seaweedfs
from tests.parts.process import PartError

LANES: tuple[tuple[Callable[[], object], ...], ...] = (
    (rck.install_jars, keycloak.install),
    (azurite.PACKAGE.install, seaweedfs.install),
    (fake_gcs.PROGRAM.install, opa.PROGRAM.install, openfga.PROGRAM.install, minio.PROGRAM.install),
)
"""At once, as one loads while another builds; but Maven's, npm's and Go's caches are each for one at a time."""


def main() -> int:
    """PostgreSQL must be there for every test run; whether others may be missing is `ICEKEEPER_TEST_PARTS`'s choice."""
    try:
        postgres.install_programs()
    except PartError as error:
        print(f"make parts: {error}", file=sys.stderr)
        return 1
    with ThreadPoolExecutor() as lanes:
        for failure in chain.from_iterable(lanes.map(_install_all, LANES)):
            print(f"make parts: {failure}", file=sys.stderr)
    print("\n".join(registry.report()))
    is_anything_missing = any(isinstance(registry.look_up(name), registry.Missing) for name in registry.PARTS)
    return int(is_anything_missing and registry.are_required())


def _install_all(installers: Iterable[Callable[[], object]]) -> list[PartError]:
    """One after another; returns what went wrong."""
    failures = []
    for install in installers:
        try:
            install()
        except PartError as error:
            failures.append(error)
    return failures


if __name__ == "__main__":
    raise SystemExit(main())
