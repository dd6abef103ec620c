"""Iceberg's own S3 client in Spark with a real store, the basis of every Spark test on an S3 warehouse."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.parts.minio import Minio
from tests.parts.s3 import REGION


def test_iceberg_writes_to_a_real_store(s3_spark: SparkSession, minio: Minio, bucket: str) -> None:
    jvm = s3_spark._jvm
    assert jvm is not None
    io = jvm.org.apache.iceberg.aws.s3.S3FileIO()
    io.initialize(
        {
            "s3.endpoint": minio.endpoint,
            "s3.path-style-access": "true",
            "s3.access-key-id": minio.user,
            "s3.secret-access-key": minio.password,
            "client.region": REGION,
        }
    )
    try:
        written = io.newOutputFile(f"s3://{bucket}/a/b").create()
        written.write(bytearray(b"seven\n\n"))
        written.close()
        assert io.newInputFile(f"s3://{bucket}/a/b").getLength() == 7
    finally:
        io.close()
    assert minio.keys(bucket) == ["a/b"]
