"""Data files and manifests of a table, written with PyIceberg by the config that the catalog gives to clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestEntry,
    ManifestEntryStatus,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record


def write_rows(
    config: Mapping[str, str], metadata: Mapping[str, Any], columns: Mapping[str, Any], *, name: str, path: str = ""
) -> str:
    """Write rows as one Parquet file and return the manifest list of a snapshot with it.

    With `path` the manifest names that file instead.
    """
    io = PyArrowFileIO(dict(config))
    schema = Schema.model_validate(metadata["schemas"][0])
    rows = pa.table(dict(columns), schema=schema.as_arrow())
    data = f"{metadata['location']}/data/{name}.parquet"
    with io.new_output(data).create() as stream:
        pq.write_table(rows, stream)
    snapshot_id, spec = 1, PartitionSpec()
    manifest_file = io.new_output(f"{metadata['location']}/metadata/{name}.avro")
    with write_manifest(2, spec, schema, manifest_file, snapshot_id, "deflate") as manifest:
        file = DataFile.from_args(
            content=DataFileContent.DATA, file_path=path or data, file_format=FileFormat.PARQUET, partition=Record(),
            record_count=rows.num_rows, file_size_in_bytes=len(io.new_input(data)),
        )  # fmt: skip
        manifest.add_entry(
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=snapshot_id, sequence_number=None,
                file_sequence_number=None, data_file=file,
            )
        )  # fmt: skip
    listed = io.new_output(f"{metadata['location']}/metadata/list-{name}.avro")
    with write_manifest_list(2, listed, snapshot_id, None, 1, "deflate") as manifest_list:
        manifest_list.add_manifests([manifest.to_manifest_file()])
    location: str = listed.location
    return location
