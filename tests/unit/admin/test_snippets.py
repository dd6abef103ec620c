"""Code to copy: exact texts for an ordinary table, quoting of hostile names, and what engines cannot read."""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from management.admin.catalog.code_quoting import escape_property, quote_python, write_python_tuple
from management.admin.catalog.snippets import (
    LOCAL_FILES,
    SPARK_SHELL_LIMIT,
    SPARK_SUBSTITUTION,
    STORAGE_BY_PROFILE_TYPE,
    UNTESTED,
    Snippet,
    SnippetTarget,
    list_first_table_snippets,
    list_snippets,
    write_duckdb_snippet,
    write_flink_snippet,
    write_pyiceberg_snippet,
    write_snowflake_snippet,
    write_spark_snippet,
    write_trino_snippet,
)
from storage.profiles.kinds import TYPES

ORDERS = SnippetTarget(
    base_url="https://icekeeper.example.org/",
    warehouse="prod-eu",
    levels=("sales", "orders"),
    name="order_lines",
    project_id="lakehouse",
    region="eu-central-1",
)
HOSTILE = [
    'a"b', "a`b", "a'b", "a\nb", "${env:HOME}", "</script>", "\u202egnp.exe", "'; DROP TABLE x --", '"""', "\\", "a\\",
    "{x}", "%s", "$(touch x)", "`id`", "!x", " a", "ü😀", "a.b", "#", "\x00", "'\\'", "/|~+=",
]  # fmt: skip


def code(snippet: Snippet) -> list[str]:
    return [part.code for part in snippet.parts]


def test_pyiceberg() -> None:
    snippet = write_pyiceberg_snippet(ORDERS)
    assert code(snippet) == [
        """from pyiceberg.catalog import load_catalog

catalog = load_catalog("icekeeper", **{
    "type": "rest",
    "uri": "https://icekeeper.example.org/catalog",
    "warehouse": "lakehouse/prod-eu",
    "credential": "CLIENT_ID:CLIENT_SECRET",
    "oauth2-server-uri": "https://icekeeper.example.org/catalog/v1/oauth/tokens",
})
table = catalog.load_table(("sales", "orders", "order_lines"))
print(table.scan(limit=10).to_arrow())
"""
    ]
    assert snippet.notes == ("Replace CLIENT_ID and CLIENT_SECRET by the id of a service account and its token",)


def test_a_first_table() -> None:
    target = replace(ORDERS, levels=("demo",), name="cities", storage="local", has_authentication=False)
    python, spark = list_first_table_snippets(target)
    assert code(python)[1] == (
        """import pyarrow as pa
from pyiceberg.catalog import load_catalog

catalog = load_catalog("icekeeper", **{
    "type": "rest",
    "uri": "https://icekeeper.example.org/catalog",
    "warehouse": "lakehouse/prod-eu",
})
catalog.create_namespace_if_not_exists("demo")
rows = pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Lima"]})
table = catalog.create_table_if_not_exists("demo.cities", schema=rows.schema)
table.append(rows)
print(table.scan().to_arrow())
"""
    )
    assert code(spark)[0] == code(write_spark_snippet(target))[0]
    assert "CREATE TABLE IF NOT EXISTS icekeeper.demo.cities (id BIGINT, city STRING);" in code(spark)[1]
    assert python.notes == spark.notes == (LOCAL_FILES,)


def test_spark() -> None:
    snippet = write_spark_snippet(ORDERS)
    assert [(part.title, part.language) for part in snippet.parts] == [("Start Spark", "shell"), ("Query", "sql")]
    assert code(snippet) == [
        r"""spark-sql --packages org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0,org.apache.iceberg:iceberg-aws-bundle:1.11.0 \
    --conf spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions \
    --conf spark.sql.catalog.icekeeper=org.apache.iceberg.spark.SparkCatalog \
    --conf spark.sql.catalog.icekeeper.type=rest \
    --conf spark.sql.catalog.icekeeper.uri=https://icekeeper.example.org/catalog \
    --conf spark.sql.catalog.icekeeper.warehouse=lakehouse/prod-eu \
    --conf spark.sql.catalog.icekeeper.credential=CLIENT_ID:CLIENT_SECRET \
    --conf spark.sql.catalog.icekeeper.oauth2-server-uri=https://icekeeper.example.org/catalog/v1/oauth/tokens
""",  # noqa: E501
        "SELECT * FROM icekeeper.`sales`.`orders`.`order_lines` LIMIT 10;\n",
    ]


def test_trino() -> None:
    snippet = write_trino_snippet(replace(ORDERS, endpoint="https://minio:9000", is_path_style=True))
    assert code(snippet) == [
        """connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=https://icekeeper.example.org/catalog
iceberg.rest-catalog.warehouse=lakehouse/prod-eu
iceberg.rest-catalog.nested-namespace-enabled=true
iceberg.rest-catalog.security=OAUTH2
iceberg.rest-catalog.oauth2.token=TOKEN
iceberg.rest-catalog.vended-credentials-enabled=true
fs.native-s3.enabled=true
s3.region=eu-central-1
s3.endpoint=https://minio:9000
s3.path-style-access=true
""",
        'SELECT * FROM icekeeper."sales.orders"."order_lines" LIMIT 10;\n',
    ]
    assert snippet.parts[0].title == "etc/catalog/icekeeper.properties"
    assert snippet.notes == ("Replace TOKEN by an access token",)


def test_duckdb() -> None:
    assert code(write_duckdb_snippet(ORDERS)) == [
        """INSTALL iceberg;
LOAD iceberg;
CREATE SECRET icekeeper (TYPE iceberg, TOKEN 'TOKEN');
ATTACH 'lakehouse/prod-eu' AS icekeeper (
    TYPE iceberg,
    ENDPOINT 'https://icekeeper.example.org/catalog',
    SECRET icekeeper,
    SUPPORT_NESTED_NAMESPACES true
);
SELECT * FROM icekeeper."sales.orders"."order_lines" LIMIT 10;
"""
    ]


def test_flink() -> None:
    assert code(write_flink_snippet(ORDERS)) == [
        """CREATE CATALOG icekeeper WITH (
    'type' = 'iceberg',
    'catalog-type' = 'rest',
    'uri' = 'https://icekeeper.example.org/catalog',
    'warehouse' = 'lakehouse/prod-eu',
    'default-database' = 'orders',
    'base-namespace' = 'sales',
    'io-impl' = 'org.apache.iceberg.aws.s3.S3FileIO',
    'header.X-Iceberg-Access-Delegation' = 'vended-credentials',
    'token' = 'TOKEN'
);
SET 'execution.runtime-mode' = 'batch';
SELECT * FROM icekeeper.`orders`.`order_lines` LIMIT 10;
"""
    ]


def test_snowflake() -> None:
    snippet = write_snowflake_snippet(ORDERS)
    assert code(snippet) == [
        """CREATE CATALOG INTEGRATION icekeeper
    CATALOG_SOURCE = ICEBERG_REST
    TABLE_FORMAT = ICEBERG
    REST_CONFIG = (
        CATALOG_URI = 'https://icekeeper.example.org/catalog'
        CATALOG_NAME = 'lakehouse/prod-eu'
        ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS
    )
    REST_AUTHENTICATION = (
        TYPE = OAUTH
        OAUTH_TOKEN_URI = 'https://icekeeper.example.org/catalog/v1/oauth/tokens'
        OAUTH_CLIENT_ID = 'CLIENT_ID'
        OAUTH_CLIENT_SECRET = 'CLIENT_SECRET'
        OAUTH_ALLOWED_SCOPES = ('catalog')
    )
    ENABLED = TRUE;
CREATE DATABASE icekeeper LINKED_CATALOG = (
    CATALOG = 'icekeeper',
    NAMESPACE_MODE = FLATTEN_NESTED_NAMESPACE,
    NAMESPACE_FLATTEN_DELIMITER = '/'
);
SELECT * FROM icekeeper."sales/orders"."order_lines" LIMIT 10;
"""
    ]
    assert UNTESTED in snippet.notes


def test_the_default_project_without_authentication() -> None:
    """On local files, as `make run` sets it up."""
    target = SnippetTarget(
        "http://127.0.0.1:8181", "local", ("shop",), "cities", has_authentication=False, storage="local"
    )
    pyiceberg, spark, trino, duckdb, flink, snowflake = list_snippets(target)
    assert '"warehouse": "local",\n})' in pyiceberg.parts[0].code
    assert "warehouse=local\n" in spark.parts[0].code
    assert "bundle" not in spark.parts[0].code
    assert "fs.hadoop.enabled=true" in trino.parts[0].code
    assert "AUTHORIZATION_TYPE 'none'\n" in duckdb.parts[0].code
    assert "io-impl" not in flink.parts[0].code
    assert snowflake.parts == ()
    assert duckdb.notes == (LOCAL_FILES,)
    everything = "".join(text for snippet in list_snippets(target) for text in code(snippet))
    assert not re.search(r"TOKEN|CLIENT|token|credential|base-namespace|NESTED", everything.replace("nested-name", ""))


def test_another_identity_provider() -> None:
    target = replace(ORDERS, oauth_uri="https://idp/token", oauth_scope="api://lake/.default")
    assert '"oauth2-server-uri": "https://idp/token"' in write_pyiceberg_snippet(target).parts[0].code
    assert '"scope": "api://lake/.default"' in write_pyiceberg_snippet(target).parts[0].code
    assert "icekeeper.scope=api://lake/.default" in write_spark_snippet(target).parts[0].code
    assert "OAUTH_ALLOWED_SCOPES = ('api://lake/.default')" in write_snowflake_snippet(target).parts[0].code


@pytest.mark.parametrize(
    ("storage", "bundle", "file_system", "file_io"),
    [("azure", "azure", "fs.native-azure", "ADLSFileIO"), ("gcs", "gcp", "fs.native-gcs", "GCSFileIO")],
)
def test_other_stores(storage: Any, bundle: str, file_system: str, file_io: str) -> None:
    target = replace(ORDERS, storage=storage)
    assert f"iceberg-{bundle}-bundle" in write_spark_snippet(target).parts[0].code
    assert f"{file_system}.enabled=true" in write_trino_snippet(target).parts[0].code
    assert "s3." not in write_trino_snippet(target).parts[0].code
    assert file_io in write_flink_snippet(target).parts[0].code


def test_every_type_of_storage_profile_has_a_kind() -> None:
    assert set(STORAGE_BY_PROFILE_TYPE) == set(TYPES)


def test_views() -> None:
    view = replace(ORDERS, is_view=True, view_dialects=("spark",))
    pyiceberg, spark, trino, duckdb, flink, snowflake = list_snippets(view)
    assert 'catalog.load_view(("sales", "orders", "order_lines"))' in pyiceberg.parts[0].code
    assert "rows" in pyiceberg.notes[0]
    assert spark.notes == write_spark_snippet(ORDERS).notes
    assert trino.notes[0] == "The view has no SQL for Trino: Trino may not be able to read it"
    assert not any(each.parts for each in (duckdb, flink, snowflake))
    assert all(each.notes for each in (duckdb, flink, snowflake))


@pytest.mark.parametrize(
    ("levels", "trino", "duckdb", "flink"),
    [
        (("a.b",), '"a.b"."t"', None, "`a.b`.`t`"),
        (("a", "b.c"), None, None, "`b.c`.`t`"),
        (("a.b", "c"), None, None, None),
        (("a", "b", "c"), '"a.b.c"."t"', '"a.b.c"."t"', "`c`.`t`"),
    ],
)
def test_dots_in_names_of_namespaces(
    levels: tuple[str, ...], trino: str | None, duckdb: str | None, flink: str | None
) -> None:
    target = replace(ORDERS, levels=levels, name="t")
    for snippet, expected in (
        (write_trino_snippet(target), trino),
        (write_duckdb_snippet(target), duckdb),
        (write_flink_snippet(target), flink),
    ):
        if expected is None:
            assert snippet.parts == ()
            assert "dot" in snippet.notes[0]
        else:
            assert f" FROM icekeeper.{expected} LIMIT 10;" in snippet.parts[-1].code
    assert repr(levels[0]).replace("'", '"') in write_pyiceberg_snippet(target).parts[0].code


def test_a_namespace_with_a_dot_is_one_level_for_trino() -> None:
    target = replace(ORDERS, levels=("a.b",))
    assert "nested-namespace-enabled=false" in write_trino_snippet(target).parts[0].code


@pytest.mark.parametrize("name", ["it's", 'a"b', "a;b", "a--b", "a/*b", "a\\"])
def test_names_that_the_shell_of_spark_cannot_parse(name: str) -> None:
    """Found with spark-sql 4.1.4: it ignores backticks when it separates statements."""
    assert SPARK_SHELL_LIMIT in write_spark_snippet(replace(ORDERS, name=name)).notes
    assert SPARK_SHELL_LIMIT in write_spark_snippet(replace(ORDERS, levels=(name,))).notes
    assert SPARK_SHELL_LIMIT not in write_spark_snippet(replace(ORDERS, name="a-b`c d.e")).notes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_view": True}, "views"),
        ({"storage": "local"}, "object stores"),
        ({"has_authentication": False}, "authentication"),
        ({"base_url": "http://host"}, "https"),
        ({"levels": ("/|~", "+=")}, "every candidate"),
    ],
)
def test_what_snowflake_cannot_read(changes: dict[str, Any], reason: str) -> None:
    snippet = write_snowflake_snippet(replace(ORDERS, **changes))
    assert snippet.parts == ()
    assert reason in snippet.notes[0]


def test_snowflake_separates_levels_by_a_character_that_none_has() -> None:
    assert '"a/b|c"' in write_snowflake_snippet(replace(ORDERS, levels=("a/b", "c"))).parts[0].code


def hostile_target(text: str) -> SnippetTarget:
    return SnippetTarget(
        f"https://host/{text}", text, (text, text), text, project_id=text, region=text, endpoint=text, oauth_uri=text,
        oauth_scope=text,
    )  # fmt: skip


texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20))


@given(texts)
def test_python_compiles_and_has_the_names(text: str) -> None:
    """Its literals are the settings and the identifier, and there is no other statement."""
    target = hostile_target(text)
    [source] = code(write_pyiceberg_snippet(target))
    compile(source, "snippet", "exec")
    _import, assignment, load, _print = ast.parse(source).body
    assert isinstance(assignment, ast.Assign)
    assert isinstance(assignment.value, ast.Call)
    settings = ast.literal_eval(assignment.value.keywords[0].value)
    assert settings["warehouse"] == f"{text}/{text}"
    assert settings["uri"] == target.catalog_uri
    assert settings["oauth2-server-uri"] == (text or f"{target.catalog_uri}/v1/oauth/tokens")
    assert isinstance(load, ast.Assign)
    assert isinstance(load.value, ast.Call)
    assert ast.literal_eval(load.value.args[0]) == (text, text, text)


@given(texts)
def test_the_shell_command_has_the_names(text: str) -> None:
    if "\x00" in text:
        return  # no argument of a command can have it
    command = write_spark_snippet(hostile_target(text)).parts[0].code
    script = f"""spark-sql() {{ printf '%s\\0' "$@"; }}\n{command}"""
    printed = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    assert printed.stderr == b""
    words = printed.stdout.decode().split("\0")[:-1]
    assert words[::2] == ["--packages", *["--conf"] * (len(words) // 2 - 1)]
    assert f"spark.sql.catalog.icekeeper.warehouse={text}/{text}" in words
    assert f"spark.sql.catalog.icekeeper.uri=https://host/{text}".rstrip("/") + "/catalog" in words


@given(texts)
def test_no_name_leaves_its_quotes_in_sql(text: str) -> None:
    """The statements have the tokens of those with plain names."""
    plain, hostile = list_snippets(hostile_target("a")), list_snippets(hostile_target(text))
    for expected, snippet in zip(plain, hostile, strict=True):
        if not snippet.parts or snippet.engine == "pyiceberg":
            continue
        backslash = snippet.engine == "snowflake"
        for part, expected_part in zip(snippet.parts, expected.parts, strict=True):
            if part.language == "sql":
                assert skeleton(part.code, backslash=backslash) == skeleton(expected_part.code, backslash=backslash)


def skeleton(sql: str, *, backslash: bool) -> list[str]:
    """The tokens of statements with names and texts blanked; fails on a character outside of all tokens."""
    string = r"'(?:[^'\\]|\\.)*'" if backslash else r"'(?:[^']|'')*'"
    pattern = re.compile(rf"`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|{string}|[A-Za-z_]+|[0-9]+|[(),.;=*]|\s+", re.DOTALL)
    tokens, position = [], 0
    while position < len(sql):
        found = pattern.match(sql, position)
        assert found, sql[position:]
        tokens.append("?" if found[0][0] in "`'\"" else found[0])
        position = found.end()
    return tokens


@given(texts)
def test_properties_have_one_line_each(text: str) -> None:
    snippet = write_trino_snippet(hostile_target(text))
    if not snippet.parts:
        return
    lines = snippet.parts[0].code.split("\n")
    expected = write_trino_snippet(hostile_target("a")).parts[0].code.split("\n")
    if text:
        assert [line.partition("=")[0] for line in lines] == [line.partition("=")[0] for line in expected]
    assert all(line.isascii() and (line.isprintable() or not line) for line in lines)
    values = dict(line.split("=", 1) for line in lines if line)
    assert read_property(values["iceberg.rest-catalog.warehouse"]) == f"{text}/{text}"


def read_property(value: str) -> str:
    """The value that Java's `Properties.load` reads."""
    named = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
    units = re.sub(
        r"\\(?:u([0-9a-f]{4})|(.))",
        lambda found: chr(int(found[1], 16)) if found[1] else named.get(found[2], found[2]),
        value.lstrip(" \t\f"),
    )
    return units.encode("utf-16-be", "surrogatepass").decode("utf-16-be")


@given(st.text())
def test_literals_read_back(text: str) -> None:
    assert ast.literal_eval(quote_python(text)) == text
    assert ast.literal_eval(write_python_tuple((text,))) == (text,)
    assert quote_python(text).isprintable()
    assert read_property(escape_property(text)) == text


def test_substitution_by_engines_is_noted() -> None:
    assert SPARK_SUBSTITUTION in write_spark_snippet(replace(ORDERS, name="${env:HOME}")).notes
    assert SPARK_SUBSTITUTION not in write_spark_snippet(ORDERS).notes
    assert "Trino may substitute" in write_trino_snippet(replace(ORDERS, warehouse="${ENV:X}")).notes[0]


@given(texts)
def test_notes_are_one_printable_line(text: str) -> None:
    for snippet in list_snippets(hostile_target(text)):
        assert snippet.notes
        assert all(note.isprintable() and not note.endswith(".") for note in snippet.notes)
