"""The certificate authorities of the machine, in a form that a JDK from a package can read.

Such a JDK brings its own list and does not know the authority of a company proxy that re-signs TLS; the machine does.
"""

import hashlib
import os
import ssl
import struct
from pathlib import Path

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
