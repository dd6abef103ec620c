"""Get Java packages from Maven Central once, with Spark's own resolver, and record the files.

Spark resolves `spark.jars.packages` at every start, which takes 13 seconds even when all is cached. Here that is
done once for a list of packages; later starts get the jars by path and need no network.
"""

import fcntl
import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyspark.conf import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from tasks.spark.environment import launch_environment

# Settings of Spark that say where packages come from; they are handed on to the resolver.
RESOLVER_SETTINGS = ("spark.jars.repositories", "spark.jars.ivySettings", "spark.jars.excludes")

_launch: Callable[..., Any] = launch_gateway  # which has no annotations


class JarsNotResolvedError(Exception):
    """The packages could not be had; the message ends with what the resolver said."""


def resolve_jars(packages: Sequence[str], *, ivy_dir: Path, settings: Mapping[str, str] | None = None) -> list[Path]:
    """Return the jar files of Maven `packages` (`group:artifact:version`) with all they depend on.

    The first call for a list of packages asks the network (16-18 s) and writes down in `ivy_dir` what it got. Later
    calls check size and SHA-256 of each file against that record; a jar that is missing or differs is resolved again.
    `settings` may hold Spark's settings for other repositories. Safe to call from several processes at once. Raises
    `JarsNotResolvedError` and `JavaNotFoundError`.
    """
    chosen = {name: value for name, value in (settings or {}).items() if name in RESOLVER_SETTINGS}
    record = ivy_dir / "resolved" / f"{_digest(json.dumps([list(packages), chosen], sort_keys=True).encode())}.json"
    record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(record.with_suffix(".lock")):
        known = _recorded(record)
        if known is not None:
            return known
        jars = _ask_spark(packages, ivy_dir, chosen)
        _record(record, jars)
        return jars


def _ask_spark(packages: Sequence[str], ivy_dir: Path, settings: Mapping[str, str]) -> list[Path]:
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.jars.packages", ",".join(packages)).set("spark.jars.ivy", str(ivy_dir))
    conf.set("spark.driver.memory", "256m")
    for name, value in settings.items():
        conf.set(name, value)
    with tempfile.TemporaryFile() as said, launch_environment():
        try:
            gateway = _launch(conf, {"stdout": said, "stderr": said})
        except PySparkRuntimeError as error:
            raise JarsNotResolvedError(_explain(packages, said)) from error
        try:
            listed: str = gateway.jvm.java.lang.System.getProperty("spark.jars") or ""
        finally:
            _stop(gateway)
    jars = [Path(re.sub(r"^file:(//)?", "", location)) for location in listed.split(",") if location]
    if not jars:
        raise JarsNotResolvedError(f"Spark resolved {', '.join(packages)} to no file at all")
    return jars


def _stop(gateway: Any) -> None:
    gateway.shutdown()
    gateway.proc.stdin.close()  # Java ends when this pipe does
    gateway.proc.wait(timeout=30)


def _explain(packages: Sequence[str], said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read().decode(errors="replace").splitlines()
    patterns = ("PKIX", "unresolved dependency", "Exception", "Error", r"\S")
    reason = next((line.strip() for pattern in patterns for line in lines if re.search(pattern, line)), "no message")
    cure = "check the network (Maven Central), or set spark.jars.repositories to a mirror"
    if "PKIX" in reason:
        cure = (
            "Java does not know the authority that signed the connection: "
            "set JAVA_TOOL_OPTIONS=-Djavax.net.ssl.trustStore=FILE to a truststore that holds it"
        )
    return f"cannot get {', '.join(packages)}: {reason}; {cure}"


def _recorded(record: Path) -> list[Path] | None:
    try:
        entries = [
            (Path(path), int(size), str(digest)) for path, (size, digest) in json.loads(record.read_bytes()).items()
        ]
    except (OSError, ValueError, TypeError, AttributeError):  # absent, or nothing that was written here
        return None
    for jar, size, digest in entries:
        if not jar.is_file() or jar.stat().st_size != size or _digest_file(jar) != digest:
            jar.unlink(missing_ok=True)  # else Ivy takes the damaged file for a good one
            return None
    return [jar for jar, _, _ in entries] or None


def _record(record: Path, jars: list[Path]) -> None:
    entries = {str(jar): (jar.stat().st_size, _digest_file(jar)) for jar in jars}
    unfinished = record.with_suffix(".new")
    unfinished.write_text(json.dumps(entries, indent=1), encoding="utf-8")
    unfinished.replace(record)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_file(path: Path) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
