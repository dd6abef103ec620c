"""`make parts`: fetch what the tests need and this machine lacks, then say what is there."""

from __future__ import annotations

import sys

from tests.parts import azurite, fake_gcs, keycloak, minio, postgres, rck, registry, seaweedfs
from tests.parts.process import PartError


def main() -> int:
    """PostgreSQL must be there for every test run; whether others may be missing is `ICEKEEPER_TEST_PARTS`'s choice."""
    try:
        postgres.install_programs()
    except PartError as error:
        print(f"make parts: {error}", file=sys.stderr)
        return 1
    programs = (minio.PROGRAM.install, fake_gcs.PROGRAM.install, azurite.PACKAGE.install, seaweedfs.install)
    for install in (rck.install_jars, keycloak.install, *programs):
        try:
            install()
        except PartError as error:
            print(f"make parts: {error}", file=sys.stderr)
    print("\n".join(registry.report()))
    is_anything_missing = any(isinstance(registry.look_up(name), registry.Missing) for name in registry.PARTS)
    return int(is_anything_missing and registry.are_required())


if __name__ == "__main__":
    raise SystemExit(main())
