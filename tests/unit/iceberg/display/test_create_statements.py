"""CREATE TABLE statements: exact texts, quoting of hostile names, and what is left out.

The Spark statements were run by Spark 4.1 with Iceberg 1.11, which created the same schema, partitioning and order.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.iceberg.display.create_statements import write_spark_statement, write_trino_statement
from catalog.iceberg.display.secret_properties import looks_secret
from catalog.iceberg.display.sql_quoting import (
    quote_backslash_string,
    quote_backticks,
    quote_identifier,
    quote_spark_string,
    quote_string,
)
from tests.unit.iceberg.display.test_columns import HOSTILE, list_of, map_of, struct
from tests.unit.iceberg.document_fixtures import (
    DATA,
    ID,
    TIME,
    column,
    nested_type,
    partition,
    schema,
    sorting,
    table,
)

NAMES = ["lake", "sales", "eu", "orders"]

PRODUCT = struct(
    column(5, "sku", "string", required=True, doc="it's"), column(6, "attrs", map_of(7, "string", 8, "int"))
)
METADATA = table(
    schemas=[
        schema(
            {**ID, "doc": "Order"}, DATA, TIME, column(4, "product", PRODUCT),
            column(9, "tags", list_of(10, struct(column(11, "x", "decimal(9,2)")))),
            **{"schema-id": 0, "identifier-field-ids": [1]},
        )
    ],
    properties={
        "comment": "the 'table'", "owner": "ann", "s3.secret-access-key": "XYZ", "write.format.default": "orc",
        "history.expire.max-snapshot-age-ms": "5", "source": "postgres://user:pw@host/db",
    },
    **{
        "last-column-id": 11,
        "last-partition-id": 1004,
        "partition-specs": [
            {
                "spec-id": 0,
                "fields": [
                    partition(3, "day", "ts_day", **{"field-id": 1000}),
                    partition(1, "bucket[16]", "id_bucket", **{"field-id": 1001}),
                    partition(2, "truncate[4]", "data_trunc", **{"field-id": 1002}),
                    partition(5, "identity", "product.sku", **{"field-id": 1003}),
                    partition(2, "void", "data_void", **{"field-id": 1004}),
                ],
            }
        ],
        "sort-orders": [
            {"order-id": 0, "fields": []},
            {
                "order-id": 1,
                "fields": [sorting(1, direction="desc", **{"null-order": "nulls-last"}), sorting(3, "hour")],
            },
        ],
        "default-sort-order-id": 1,
    },
)  # fmt: skip


def test_spark() -> None:
    statement = write_spark_statement(METADATA, NAMES)
    assert (
        statement.sql
        == r"""CREATE TABLE `lake`.`sales`.`eu`.`orders` (
    `id` BIGINT NOT NULL COMMENT 'Order',
    `data` STRING,
    `ts` TIMESTAMP_NTZ,
    `product` STRUCT<`sku`: STRING NOT NULL COMMENT 'it\'s', `attrs`: MAP<STRING, INT>>,
    `tags` ARRAY<STRUCT<`x`: DECIMAL(9, 2)>>
)
USING iceberg
PARTITIONED BY (days(`ts`), bucket(16, `id`), truncate(4, `data`), `product`.`sku`)
COMMENT 'the \'table\''
TBLPROPERTIES (
    'format-version' = '2',
    'history.expire.max-snapshot-age-ms' = '5',
    'write.format.default' = 'orc'
);
ALTER TABLE `lake`.`sales`.`eu`.`orders` WRITE LOCALLY ORDERED BY `id` DESC NULLS LAST, hours(`ts`) ASC NULLS FIRST;
ALTER TABLE `lake`.`sales`.`eu`.`orders` SET IDENTIFIER FIELDS `id`;
"""
    )
    assert statement.notes == (
        "Left out because they may be secret: s3.secret-access-key, source",
        "ALTER TABLE needs Iceberg's SQL extensions in the session",
    )


def test_trino() -> None:
    statement = write_trino_statement(METADATA, NAMES)
    assert (
        statement.sql
        == """CREATE TABLE "lake"."sales.eu"."orders" (
    "id" bigint NOT NULL COMMENT 'Order',
    "data" varchar,
    "ts" timestamp(6),
    "product" row("sku" varchar, "attrs" map(varchar, integer)),
    "tags" array(row("x" decimal(9, 2)))
)
COMMENT 'the ''table'''
WITH (
    format_version = 2,
    format = 'ORC',
    partitioning = ARRAY['day("ts")', 'bucket("id", 16)', 'truncate("data", 4)', '"product.sku"'],
    sorted_by = ARRAY['"id" DESC NULLS LAST']
);
"""
    )
    assert statement.notes == (
        "Trino has no comments of nested fields: product.sku",
        "Trino has no NOT NULL of nested fields: product.sku",
        "Left out because they may be secret: s3.secret-access-key, source",
        "Left out of partitioning or order: hour(ts)",
        "Trino sets no other properties: history.expire.max-snapshot-age-ms, owner",
    )


@pytest.mark.parametrize(
    ("column_type", "spark", "trino"),
    [
        ("boolean", "BOOLEAN", "boolean"),
        ("timestamptz", "TIMESTAMP", "timestamp(6) with time zone"),
        ("float", "FLOAT", "real"),
        ("double", "DOUBLE", "double"),
        ("date", "DATE", "date"),
        ("binary", "BINARY", "varbinary"),
        ("decimal(38,10)", "DECIMAL(38, 10)", "decimal(38, 10)"),
        ("uuid", "STRING", "uuid"),
        ("time", "STRING", "time(6)"),
        ("fixed[7]", "BINARY", "varbinary"),
        ("timestamp_ns", "TIMESTAMP_NTZ", "timestamp(6)"),
        ("variant", "VARIANT", "varchar"),
        ("unknown", "VOID", "varchar"),
        ("geometry(srid:3857)", "BINARY", "varbinary"),
        ("a future type'; --", "STRING", "varchar"),
    ],
)
def test_types(column_type: str, spark: str, trino: str) -> None:
    metadata = {**table(), "schemas": [schema(column(1, "c", column_type), **{"schema-id": 0})]}
    assert f"\n    `c` {spark}\n" in write_spark_statement(metadata, NAMES).sql
    assert f'\n    "c" {trino}\n' in write_trino_statement(metadata, NAMES).sql


def test_notes_name_few_columns() -> None:
    metadata = {**table(), "schemas": [schema(*(column(n, f"c{n}", "uuid") for n in range(1, 9)), **{"schema-id": 0})]}
    assert write_spark_statement(metadata, NAMES).notes == (
        "Spark creates no columns of type uuid, written as STRING: c1, c2, c3, c4, c5 and 3 more",
    )


def test_defaults_and_required_elements_are_noted() -> None:
    columns = [column(1, "l", list_of(2, "int", required=True)), column(3, "d", "int", **{"write-default": 5})]
    metadata = {**table(), "schemas": [schema(*columns, **{"schema-id": 0})]}
    expected = (
        "SQL has no NOT NULL of the elements of lists and the values of maps: l.element",
        "Default values are left out: d",
    )
    assert write_spark_statement(metadata, NAMES).notes == expected
    assert write_trino_statement(metadata, NAMES).notes == (*expected, "Trino sets no other properties: owner")


def test_metadata_without_optional_members() -> None:
    assert write_spark_statement({}, ["c", "ns", "t"]).sql == (
        "CREATE TABLE `c`.`ns`.`t`\nUSING iceberg\nTBLPROPERTIES (\n    'format-version' = '2'\n);\n"
    )
    legacy = {"format-version": 1, "schema": schema(ID, TIME), "partition-spec": [partition(3, "month", "ts_month")]}
    assert "PARTITIONED BY (months(`ts`))" in write_spark_statement(legacy, NAMES).sql
    assert """ARRAY['month("ts")']""" in write_trino_statement(legacy, NAMES).sql


@pytest.mark.parametrize("kind", ["struct", "list", "map"])
def test_deep_nesting(kind: str) -> None:
    metadata = {**table(), "schemas": [schema(column(1, "deep", nested_type(kind, 100)), **{"schema-id": 0})]}
    word = {"struct": "STRUCT<", "list": "ARRAY<", "map": "MAP<"}[kind]
    assert write_spark_statement(metadata, NAMES).sql.count(word) == 100
    assert write_trino_statement(metadata, NAMES).sql.count(word.replace("STRUCT<", "ROW<").lower()[:-1] + "(") == 100


def test_substitution_by_spark_is_noted() -> None:
    note = "A name contains ${: set spark.sql.variable.substitute=false first, or Spark substitutes it"
    assert note in write_spark_statement(table(), ["c", "ns", "${env:HOME}"]).notes
    assert "${" not in write_spark_statement({**table(), "properties": {"a": "${env:HOME}"}}, NAMES).sql


def test_invisible_characters_in_names_are_noted() -> None:
    metadata = {**table(), "schemas": [schema(column(1, "a\u202eb"), **{"schema-id": 0})]}
    note = r"Names with invisible characters: a\u202eb"
    assert write_spark_statement(metadata, NAMES).notes == (note,)
    assert note in write_trino_statement(metadata, NAMES).notes


SPARK_TOKEN = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|[A-Za-z_]+|[0-9]+|[(),.:;<>=]|\s+")
TRINO_TOKEN = re.compile(r"\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*'|[A-Za-z_]+|[0-9]+|[(),;=\[\]]|\.|\s+")


def skeleton(sql: str, pattern: re.Pattern[str]) -> list[str]:
    """The tokens of a statement with names and texts blanked; fails on a character outside of all tokens."""
    tokens, position = [], 0
    while position < len(sql):
        found = pattern.match(sql, position)
        assert found, sql[position:]
        tokens.append("?" if found[0][0] in "`'\"" else found[0])
        position = found.end()
    return tokens


def with_text(text: str) -> dict[str, Any]:
    columns = [column(1, text, "long", doc=text), column(2, "s", struct(column(3, text, "string", doc=text)))]
    spec = {"spec-id": 0, "fields": [partition(1, "bucket[4]", "b"), partition(3, "identity", "i")]}
    order = {"order-id": 0, "fields": [sorting(1)]}
    return {
        **table(), "schemas": [schema(*columns, **{"schema-id": 0, "identifier-field-ids": [1]})],
        "partition-specs": [spec], "sort-orders": [order], "properties": {f"x{text}": text, "comment": text},
    }  # fmt: skip


PLAIN = with_text("a")


@given(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)))
def test_no_text_leaves_its_quotes(text: str) -> None:
    """Statements with any name, comment and property have the tokens of one with plain ones."""
    if looks_secret(f"x{text}", text):
        return
    names = ["c", text, text]
    spark = write_spark_statement(with_text(text), names)
    assert skeleton(spark.sql, SPARK_TOKEN) == skeleton(write_spark_statement(PLAIN, ["c", "a", "a"]).sql, SPARK_TOKEN)
    trino = write_trino_statement(with_text(text), names)
    assert skeleton(trino.sql, TRINO_TOKEN) == skeleton(write_trino_statement(PLAIN, ["c", "a", "a"]).sql, TRINO_TOKEN)


@given(st.text())
def test_quoted_texts_read_back(text: str) -> None:
    assert quote_backticks(text)[1:-1].replace("``", "`") == text
    assert quote_identifier(text)[1:-1].replace('""', '"') == text
    assert quote_string(text)[1:-1].replace("''", "'") == text
    assert re.sub(r"\\(.)", r"\1", quote_backslash_string(text)[1:-1], flags=re.DOTALL) == text
    spark = quote_spark_string(text)
    assert "\n" not in spark
    named = {"n": "\n", "r": "\r", "t": "\t"}
    assert (
        re.sub(
            r"\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(.))",
            lambda found: named.get(found[3], found[3]) if found[3] else chr(int(found[1] or found[2], 16)),
            spark[1:-1],
        )
        == text
    )


@pytest.mark.parametrize(
    "name",
    [
        "s3.secret-access-key", "s3.access-key-id", "adls.sas-token.account", "adls.account-key", "password",
        "db_passwd",
        "gcs.oauth2.token", "oauth2.credential", "api_key", "apiKey", "privateKey", "header.Authorization", "my.PASS",
        "connection-string", "encryption.key", "client.auth", "pwd",
    ],
)  # fmt: skip
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    [
        "write.format.default", "write.parquet.compression-codec", "history.expire.max-snapshot-age-ms", "owner",
        "encryption.key-id", "comment", "primary-key", "author", "passenger.count",
        "bypass", "write.object-storage.path",
    ],
)  # fmt: skip
def test_other_names(name: str) -> None:
    assert not looks_secret(name, "https://host/path")


@pytest.mark.parametrize(
    "value",
    [
        "jdbc://u:p@host/x",
        "https://:token@host",
        "Bearer abc",
        "https://b/o?a=1&sig=abc",
        "https://b?X-Amz-Signature=1",
    ],
)
def test_values_with_secrets(value: str) -> None:
    assert looks_secret("source", value)
