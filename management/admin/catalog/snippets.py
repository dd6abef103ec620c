"""Code to copy that reads one table or view with an engine: PyIceberg, Spark, Trino, DuckDB, Flink, Snowflake.

The settings are those of `docs/engines.md`. Code holds placeholders instead of secrets: `CLIENT_ID:CLIENT_SECRET`,
`TOKEN`, `REGION`. The catalog is named `icekeeper` in every engine, so that only names of objects need quoting.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final, Literal

from catalog.iceberg.display.sql_quoting import (
    join_backticks,
    join_identifiers,
    quote_backslash_string,
    quote_string,
)
from management.admin.catalog.code_quoting import escape_property, quote_python, write_python_tuple

Engine = Literal["pyiceberg", "spark", "trino", "duckdb", "flink", "snowflake"]
Language = Literal["python", "shell", "sql", "properties"]
Storage = Literal["s3", "azure", "gcs", "local"]

CATALOG: Final = "icekeeper"
CREDENTIAL: Final = "CLIENT_ID:CLIENT_SECRET"
TOKEN: Final = "TOKEN"  # noqa: S105 - the placeholder
DEFAULT_SCOPE: Final = "catalog"
"""The scope that Iceberg clients request by themselves."""

STORAGE_BY_PROFILE_TYPE: Final[dict[str, Storage]] = {
    "s3": "s3",
    "stackit": "s3",
    "adls": "azure",
    "onelake": "azure",
    "gcs": "gcs",
    "local": "local",
}
"""The value for `SnippetTarget.storage` of each type of storage profile."""

SPARK_RUNTIME: Final = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
SPARK_BUNDLES: Final = {
    "s3": "org.apache.iceberg:iceberg-aws-bundle:1.11.0",
    "azure": "org.apache.iceberg:iceberg-azure-bundle:1.11.0",
    "gcs": "org.apache.iceberg:iceberg-gcp-bundle:1.11.0",
}
_FLINK_FILE_IO: Final = {
    "s3": "org.apache.iceberg.aws.s3.S3FileIO",
    "azure": "org.apache.iceberg.azure.adlsv2.ADLSFileIO",
    "gcs": "org.apache.iceberg.gcp.gcs.GCSFileIO",
}
_DELIMITERS: Final = "/|~+="
"""Candidates for Snowflake's separator of namespace levels: one that no level contains."""

UNTESTED: Final = "Not tested with this engine: settings as its documentation describes them"
LOCAL_FILES: Final = "The files are in a folder of the server: the engine must see it under the same path"
SPARK_SUBSTITUTION: Final = (
    "A name contains ${: run SET spark.sql.variable.substitute=false first, or Spark substitutes it"
)
_SPARK_SHELL_MARKS: Final = ("'", '"', ";", "--", "/*", "\\")
SPARK_SHELL_LIMIT: Final = (
    "A name contains a quote, semicolon, backslash or comment mark, at which spark-sql may split the query: "
    "run it by spark.sql() in a program"
)


@dataclass(frozen=True, slots=True)
class SnippetTarget:
    """The table or view to read, and how the server is reached.

    `base_url` is the server's address without `/catalog`. `project_id` is None for the default project. `storage` is
    the kind of the warehouse's store; `region`, `endpoint` and `is_path_style` belong to S3 and are None or False where
    the profile does not set them. `oauth_uri` is the token endpoint of the identity provider, None for the server's
    own. `levels` has at least one element. `view_dialects` are the SQL dialects of a view (`spark`, `trino`), in lower
    case.
    """

    base_url: str
    warehouse: str
    levels: tuple[str, ...]
    name: str
    project_id: str | None = None
    is_view: bool = False
    has_authentication: bool = True
    storage: Storage = "s3"
    region: str | None = None
    endpoint: str | None = None
    is_path_style: bool = False
    oauth_uri: str | None = None
    oauth_scope: str = DEFAULT_SCOPE
    view_dialects: tuple[str, ...] = ()

    @property
    def catalog_uri(self) -> str:
        return f"{self.base_url.rstrip('/')}/catalog"

    @property
    def token_uri(self) -> str:
        return self.oauth_uri or f"{self.catalog_uri}/v1/oauth/tokens"

    @property
    def warehouse_address(self) -> str:
        """The name by which clients address the warehouse."""
        return self.warehouse if self.project_id is None else f"{self.project_id}/{self.warehouse}"

    @property
    def has_dot_in_level(self) -> bool:
        return any("." in level for level in self.levels)

    @property
    def is_nested(self) -> bool:
        return len(self.levels) > 1


@dataclass(frozen=True, slots=True)
class CodePart:
    """One block of code; `title` is a file name or a purpose, empty where the code needs none."""

    title: str
    language: Language
    code: str


@dataclass(frozen=True, slots=True)
class Snippet:
    """How one engine reads the table or view. Without `parts` it cannot, and the first of `notes` has the reason.

    Notes are sentences without a full stop.
    """

    engine: Engine
    label: str
    parts: tuple[CodePart, ...]
    notes: tuple[str, ...]


def list_snippets(target: SnippetTarget) -> tuple[Snippet, ...]:
    """Return one snippet for each engine, always in the same sequence."""
    return (
        write_pyiceberg_snippet(target),
        write_spark_snippet(target),
        write_trino_snippet(target),
        write_duckdb_snippet(target),
        write_flink_snippet(target),
        write_snowflake_snippet(target),
    )


def list_first_table_snippets(target: SnippetTarget) -> tuple[Snippet, ...]:
    """Return code that creates the namespace and the table of `target`, adds rows, and reads them.

    The names must need no quotes. A second run adds the rows again.
    """
    namespace, table = ".".join(target.levels), ".".join((*target.levels, target.name))
    program = [
        "import pyarrow as pa",
        "from pyiceberg.catalog import load_catalog",
        "",
        *_connect_pyiceberg(target),
        f'catalog.create_namespace_if_not_exists("{namespace}")',
        'rows = pa.table({"id": [1, 2, 3], "city": ["Rome", "Oslo", "Lima"]})',
        f'table = catalog.create_table_if_not_exists("{table}", schema=rows.schema)',
        "table.append(rows)",
        "print(table.scan().to_arrow())",
    ]
    statements = [
        f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.{namespace};",
        f"CREATE TABLE IF NOT EXISTS {CATALOG}.{table} (id BIGINT, city STRING);",
        f"INSERT INTO {CATALOG}.{table} VALUES (1, 'Rome'), (2, 'Oslo'), (3, 'Lima');",  # noqa: S608 - shown, not run
        f"SELECT * FROM {CATALOG}.{table};",  # noqa: S608 - likewise
    ]
    notes = _common_notes(target, CREDENTIAL)
    python = (
        CodePart("Install PyIceberg", "shell", _join(['pip install "pyiceberg[pyarrow]"'])),
        CodePart("Create a table", "python", _join(program)),
    )
    spark = (
        CodePart("Start Spark", "shell", _start_spark(target)),
        CodePart("Create a table", "sql", _join(statements)),
    )
    return Snippet("pyiceberg", "PyIceberg", python, notes), Snippet("spark", "Spark", spark, notes)


def write_pyiceberg_snippet(target: SnippetTarget) -> Snippet:
    """Return a program for PyIceberg; of a view it prints the definition, as PyIceberg runs no SQL."""
    lines = ["from pyiceberg.catalog import load_catalog", "", *_connect_pyiceberg(target)]
    identifier = write_python_tuple((*target.levels, target.name))
    notes = []
    if target.is_view:
        lines += [f"view = catalog.load_view({identifier})", "print(view.schema())", "print(view.current_version())"]
        notes.append("PyIceberg reads the definition of a view, not its rows")
    else:
        lines += [f"table = catalog.load_table({identifier})", "print(table.scan(limit=10).to_arrow())"]
    parts = (CodePart("", "python", _join(lines)),)
    return Snippet("pyiceberg", "PyIceberg", parts, (*notes, *_common_notes(target, CREDENTIAL)))


def write_spark_snippet(target: SnippetTarget) -> Snippet:
    """Return a `spark-sql` command with the settings of the session, and a query."""
    query = _write_query(join_backticks((*target.levels, target.name)))
    notes = _dialect_notes(target, "spark", "Spark")
    if any("${" in name for name in (*target.levels, target.name)):
        notes.append(SPARK_SUBSTITUTION)
    if any(mark in name for name in (*target.levels, target.name) for mark in _SPARK_SHELL_MARKS):
        notes.append(SPARK_SHELL_LIMIT)
    parts = (CodePart("Start Spark", "shell", _start_spark(target)), CodePart("Query", "sql", _join([query])))
    return Snippet("spark", "Spark", parts, (*notes, *_common_notes(target, CREDENTIAL)))


def write_trino_snippet(target: SnippetTarget) -> Snippet:
    """Return the properties of a catalog of Trino, and a query. A nested namespace is one schema with dots."""
    if target.is_nested and target.has_dot_in_level:
        reason = (
            "Trino separates the levels of a namespace by dots, so it cannot address a level with a dot in its name"
        )
        return Snippet("trino", "Trino", (), (reason,))
    settings = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": target.catalog_uri,
        "iceberg.rest-catalog.warehouse": target.warehouse_address,
        "iceberg.rest-catalog.nested-namespace-enabled": "false" if target.has_dot_in_level else "true",
    }
    if target.has_authentication:
        settings |= {"iceberg.rest-catalog.security": "OAUTH2", "iceberg.rest-catalog.oauth2.token": TOKEN}
    settings |= _trino_storage(target)
    lines = [f"{name}={escape_property(value)}" for name, value in settings.items()]
    query = _write_query(join_identifiers((".".join(target.levels), target.name)))
    notes = _dialect_notes(target, "trino", "Trino")
    if target.has_dot_in_level:
        notes.append("This catalog shows no nested namespaces, because the namespace has a dot in its name. Not tested")
    if "${" in target.warehouse_address:
        notes.append("The name of the warehouse contains ${, which Trino may substitute in its settings")
    if target.storage != "s3":
        notes.append(UNTESTED)
    parts = (
        CodePart(f"etc/catalog/{CATALOG}.properties", "properties", _join(lines)),
        CodePart("Query", "sql", _join([query])),
    )
    return Snippet("trino", "Trino", parts, (*notes, *_common_notes(target, TOKEN)))


def write_duckdb_snippet(target: SnippetTarget) -> Snippet:
    """Return the statements for DuckDB's extension `iceberg`. A nested namespace is one schema with dots."""
    if target.is_view:
        return Snippet("duckdb", "DuckDB", (), ("DuckDB does not read views of an Iceberg catalog",))
    if target.has_dot_in_level:
        reason = (
            "DuckDB separates the levels of a namespace by dots, so it cannot address a level with a dot in its name"
        )
        return Snippet("duckdb", "DuckDB", (), (reason,))
    lines = ["INSTALL iceberg;", "LOAD iceberg;"]
    authorization = "AUTHORIZATION_TYPE 'none'"
    if target.has_authentication:
        lines.append(f"CREATE SECRET {CATALOG} (TYPE iceberg, TOKEN '{TOKEN}');")
        authorization = f"SECRET {CATALOG}"
    options = ["TYPE iceberg", f"ENDPOINT {quote_string(target.catalog_uri)}", authorization]
    if target.is_nested:
        options.append("SUPPORT_NESTED_NAMESPACES true")
    lines += [
        f"ATTACH {quote_string(target.warehouse_address)} AS {CATALOG} (",
        *[f"    {option}," for option in options[:-1]],
        f"    {options[-1]}",
        ");",
        _write_query(join_identifiers((".".join(target.levels), target.name))),
    ]
    notes = [] if target.storage == "local" and not target.has_authentication else [UNTESTED]
    return Snippet("duckdb", "DuckDB", (CodePart("", "sql", _join(lines)),), (*notes, *_common_notes(target, TOKEN)))


def write_flink_snippet(target: SnippetTarget) -> Snippet:
    """Return the statements for Flink SQL. A database is the last level of a namespace; those above are an option."""
    if target.is_view:
        return Snippet("flink", "Flink", (), ("Flink does not read views of an Iceberg catalog",))
    parents, database = target.levels[:-1], target.levels[-1]
    if any("." in level for level in parents):
        reason = (
            "Flink separates the levels above a database by dots, so it cannot address a level with a dot in its name"
        )
        return Snippet("flink", "Flink", (), (reason,))
    options = {
        "type": "iceberg",
        "catalog-type": "rest",
        "uri": target.catalog_uri,
        "warehouse": target.warehouse_address,
        "default-database": database,
    }
    if parents:
        options["base-namespace"] = ".".join(parents)
    if target.storage in _FLINK_FILE_IO:
        options |= {
            "io-impl": _FLINK_FILE_IO[target.storage],
            "header.X-Iceberg-Access-Delegation": "vended-credentials",
        }
    if target.has_authentication:
        options["token"] = TOKEN
    pairs = ",\n".join(f"    '{name}' = {quote_string(value)}" for name, value in options.items())
    lines = [
        f"CREATE CATALOG {CATALOG} WITH (",
        pairs,
        ");",
        "SET 'execution.runtime-mode' = 'batch';",
        _write_query(join_backticks((database, target.name))),
    ]
    notes = []
    if parents:
        notes.append("Flink has no nested namespaces: this catalog begins below the parent namespace. Not tested")
    if target.storage == "s3":
        notes.append("The AWS SDK needs a region: export AWS_REGION before Flink starts")
    return Snippet("flink", "Flink", (CodePart("", "sql", _join(lines)),), (*notes, *_common_notes(target, TOKEN)))


def write_snowflake_snippet(target: SnippetTarget) -> Snippet:
    """Return the statements for a catalog integration and a linked database of Snowflake."""
    reason = _explain_snowflake_limit(target)
    if reason:
        return Snippet("snowflake", "Snowflake", (), (reason,))
    linked = [f"    CATALOG = '{CATALOG}'"]
    schema = target.levels[0]
    if target.is_nested:
        delimiter = next(each for each in _DELIMITERS if not any(each in level for level in target.levels))
        schema = delimiter.join(target.levels)
        linked += ["    NAMESPACE_MODE = FLATTEN_NESTED_NAMESPACE", f"    NAMESPACE_FLATTEN_DELIMITER = '{delimiter}'"]
    lines = [
        f"CREATE CATALOG INTEGRATION {CATALOG}",
        "    CATALOG_SOURCE = ICEBERG_REST",
        "    TABLE_FORMAT = ICEBERG",
        "    REST_CONFIG = (",
        f"        CATALOG_URI = {quote_backslash_string(target.catalog_uri)}",
        f"        CATALOG_NAME = {quote_backslash_string(target.warehouse_address)}",
        "        ACCESS_DELEGATION_MODE = VENDED_CREDENTIALS",
        "    )",
        "    REST_AUTHENTICATION = (",
        "        TYPE = OAUTH",
        f"        OAUTH_TOKEN_URI = {quote_backslash_string(target.token_uri)}",
        "        OAUTH_CLIENT_ID = 'CLIENT_ID'",
        "        OAUTH_CLIENT_SECRET = 'CLIENT_SECRET'",
        f"        OAUTH_ALLOWED_SCOPES = ({quote_backslash_string(target.oauth_scope)})",
        "    )",
        "    ENABLED = TRUE;",
        f"CREATE DATABASE {CATALOG} LINKED_CATALOG = (",
        ",\n".join(linked),
        ");",
        _write_query(join_identifiers((schema, target.name))),
    ]
    notes = [UNTESTED, "Snowflake must reach the catalog over the internet"]
    return Snippet(
        "snowflake", "Snowflake", (CodePart("", "sql", _join(lines)),), (*notes, *_common_notes(target, CREDENTIAL))
    )


def _connect_pyiceberg(target: SnippetTarget) -> list[str]:
    settings = {"type": "rest", "uri": target.catalog_uri, "warehouse": target.warehouse_address}
    settings |= _oauth_settings(target)
    members = [f"    {quote_python(name)}: {quote_python(value)}," for name, value in settings.items()]
    return [f'catalog = load_catalog("{CATALOG}", **{{', *members, "})"]


def _start_spark(target: SnippetTarget) -> str:
    prefix = f"spark.sql.catalog.{CATALOG}"
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.type": "rest",
        f"{prefix}.uri": target.catalog_uri,
        f"{prefix}.warehouse": target.warehouse_address,
    }
    settings |= {f"{prefix}.{name}": value for name, value in _oauth_settings(target).items()}
    packages = ",".join([SPARK_RUNTIME, *([SPARK_BUNDLES[target.storage]] if target.storage in SPARK_BUNDLES else [])])
    options = [f"--packages {packages}"]
    options += [f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items()]
    return _join(["spark-sql " + " \\\n    ".join(options)])


def _explain_snowflake_limit(target: SnippetTarget) -> str | None:
    """Why Snowflake cannot read the table or view; None if it can."""
    if target.is_view:
        return "Snowflake does not read views of an Iceberg catalog"
    if target.storage == "local":
        return "Snowflake reads object stores only, and the files are in a folder of the server"
    if not target.has_authentication:
        return "Snowflake connects only with authentication, which is off on this server"
    if not target.base_url.lower().startswith("https://"):
        return "Snowflake connects only to https addresses"
    if target.is_nested and all(any(each in level for level in target.levels) for each in _DELIMITERS):
        return "Snowflake joins the levels of a namespace by one character, and the names contain every candidate"
    return None


def _trino_storage(target: SnippetTarget) -> dict[str, str]:
    if target.storage == "local":
        return {"fs.hadoop.enabled": "true"}
    settings = {
        "iceberg.rest-catalog.vended-credentials-enabled": "true",
        f"fs.native-{target.storage}.enabled": "true",
    }
    if target.storage == "s3":
        settings["s3.region"] = target.region or "REGION"
        if target.endpoint:
            settings["s3.endpoint"] = target.endpoint
        if target.is_path_style:
            settings["s3.path-style-access"] = "true"
    return settings


def _oauth_settings(target: SnippetTarget) -> dict[str, str]:
    """Settings of Iceberg's REST client for the client credentials flow; empty without authentication."""
    if not target.has_authentication:
        return {}
    settings = {"credential": CREDENTIAL, "oauth2-server-uri": target.token_uri}
    return settings if target.oauth_scope == DEFAULT_SCOPE else {**settings, "scope": target.oauth_scope}


def _dialect_notes(target: SnippetTarget, dialect: str, label: str) -> list[str]:
    if target.is_view and target.view_dialects and dialect not in target.view_dialects:
        return [f"The view has no SQL for {label}: {label} may not be able to read it"]
    return []


def _common_notes(target: SnippetTarget, placeholder: str) -> tuple[str, ...]:
    notes = []
    if target.has_authentication:
        meaning = "the id of a service account and its token" if placeholder == CREDENTIAL else "an access token"
        names = "CLIENT_ID and CLIENT_SECRET" if placeholder == CREDENTIAL else TOKEN
        notes.append(f"Replace {names} by {meaning}")
    if target.storage == "local":
        notes.append(LOCAL_FILES)
    return tuple(notes)


def _write_query(name: str) -> str:
    return f"SELECT * FROM {CATALOG}.{name} LIMIT 10;"  # noqa: S608 - shown, not run; the name is quoted


def _join(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
