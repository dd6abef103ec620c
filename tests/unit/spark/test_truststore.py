"""The certificate authorities of the machine as a Java java."""

from __future__ import annotations

import base64
import hashlib
import struct
from pathlib import Path

import pytest

from tasks.spark import java

FIRST, SECOND = b"\x30\x82first", b"\x30\x82second"


def pem(*certificates: bytes) -> str:
    blocks = [base64.encodebytes(der).decode() for der in certificates]
    return "".join(f"# comment\n-----BEGIN CERTIFICATE-----\n{b}-----END CERTIFICATE-----\n" for b in blocks)


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.setattr(java, "JAVA_TRUSTSTORES", ())
    monkeypatch.setattr(java, "PEM_BUNDLES", ())
    return monkeypatch


def test_the_systems_java_truststore_is_taken_where_it_is(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = tmp_path / "cacerts"
    store.touch()
    bare_machine.setattr(java, "JAVA_TRUSTSTORES", (tmp_path / "absent", store))
    assert java.system_truststore(tmp_path / "kept") == store
    assert not (tmp_path / "kept").exists()


def test_one_is_created_from_the_system_bundle_and_the_users(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "system.pem").write_text(pem(FIRST))
    (tmp_path / "company.pem").write_text(pem(SECOND, FIRST))
    bare_machine.setattr(java, "PEM_BUNDLES", (tmp_path / "system.pem",))
    bare_machine.setenv("SSL_CERT_FILE", str(tmp_path / "company.pem"))
    store = java.system_truststore(tmp_path / "kept")
    assert store is not None
    assert store.read_bytes() == java.as_jks([SECOND, FIRST])
    assert java.system_truststore(tmp_path / "kept") == store
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [store.name]


def test_a_machine_without_authorities_gives_none(tmp_path: Path) -> None:
    assert java.system_truststore(tmp_path / "kept") is None
    assert not (tmp_path / "kept").exists()


def test_a_bundle_that_is_named_but_absent_is_passed_over(bare_machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare_machine.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    assert java.system_truststore(tmp_path / "kept") is None


def test_the_key_store_is_laid_out_and_sealed_as_java_wants() -> None:
    content = java.as_jks([FIRST, SECOND, FIRST])
    assert struct.unpack_from(">III", content) == (0xFEEDFEED, 2, 2)
    assert content.count(FIRST) == content.count(SECOND) == 1
    body, seal = content[:-20], content[-20:]
    assert seal == hashlib.sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()  # noqa: S324
