"""PyIceberg's two file systems on MinIO with the table config of a response, and no other settings."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from storage.credentials import read_credential
from storage.profiles.kinds import read_profile
from storage.vending.client_config import client_config, credential_config
from storage.vending.delegation import FileAccess
from storage.vending.vend import issue
from tests.parts.minio import Minio

pytestmark = pytest.mark.django_db


def reported(minio: Minio, bucket: str, rights: FileAccess) -> list[dict[str, Any]]:
    """Return `config` of a table and of its `storage-credentials`."""
    credential = read_credential(minio.credential)
    profile = read_profile(minio.profile(bucket, "wh"), credential)
    vended_credentials = issue(profile, credential, location=f"s3://{bucket}/wh/t 1", rights=rights)
    assert vended_credentials is not None
    return [
        client_config(profile.as_json(), vended=vended_credentials),
        credential_config(profile.as_json(), vended_credentials),
    ]


def test_a_writer_needs_no_more(minio: Minio, bucket: str) -> None:
    for config in reported(minio, bucket, FileAccess.READ_WRITE):
        io, location = PyArrowFileIO(config), f"s3://{bucket}/wh/t 1/data/f.parquet"
        assert not io.new_input(location).exists()
        with io.new_output(location).create() as out:
            out.write(b"data")
        assert io.new_input(location).exists()
        assert len(io.new_input(location)) == 4
        with io.new_input(location).open() as file:
            assert file.read() == b"data"
        with pytest.raises(FileExistsError):
            io.new_output(location).create()
        io.delete(location)
        assert minio.keys(bucket) == ["wh/t 1/data/"]  # Arrow creates a marker object for a folder


def test_a_writer_gets_no_more(minio: Minio, bucket: str) -> None:
    minio.client().put_object(Bucket=bucket, Key="wh/t 10/there", Body=b"others'")
    for config in reported(minio, bucket, FileAccess.READ_WRITE):
        io, location = PyArrowFileIO(config), f"s3://{bucket}/wh/t 10/there"
        for touch in (lambda: io.new_input(location).open(), lambda: io.delete(location)):  # noqa: B023 - called at once
            with pytest.raises(OSError, match=r"ACCESS_DENIED|AWS Error \[code 15\]|Forbidden"):
                touch()
    assert minio.keys(bucket) == ["wh/t 10/there"]


def test_a_reader_cannot_write(minio: Minio, bucket: str) -> None:
    minio.client().put_object(Bucket=bucket, Key="wh/t 1/there", Body=b"data")
    for config in reported(minio, bucket, FileAccess.READ):
        io, location = PyArrowFileIO(config), f"s3://{bucket}/wh/t 1/there"
        with io.new_input(location).open() as file:
            assert file.read() == b"data"
        with pytest.raises(OSError, match="ACCESS_DENIED"):
            io.delete(location)
    assert minio.keys(bucket) == ["wh/t 1/there"]
