"""SQL statements that create a table like a given one, for Spark and for Trino.

Neither language expresses everything that metadata holds: what is left out or changed is listed in the notes of a
statement. The location is left out, because two tables cannot share one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from catalog.iceberg.column_types import primitive_name
from catalog.iceberg.display.partition_text import find_source_paths, list_source_ids, read_transform
from catalog.iceberg.display.schema_fields import SchemaField, get_type_kind, walk_fields, write_type
from catalog.iceberg.display.secret_properties import looks_secret
from catalog.iceberg.display.sql_quoting import (
    join_backticks,
    join_identifiers,
    quote_backticks,
    quote_identifier,
    quote_spark_string,
    quote_string,
)
from catalog.iceberg.display.stored_parts import find_current_schema, list_objects
from catalog.iceberg.display.visible_text import show_invisible
from catalog.iceberg.properties import RESERVED_PROPERTIES
from catalog.iceberg.types import DEFAULT_FORMAT_VERSION, TableMetadata

_INDENT: Final = "    "
_MAX_NAMED: Final = 5
"""Columns or properties that a note names."""

_SPARK_TYPES: Final = {
    "boolean": "BOOLEAN",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "variant": "VARIANT",
}
_SPARK_SUBSTITUTES: Final = {
    "uuid": "STRING",
    "time": "STRING",
    "fixed": "BINARY",
    "timestamp_ns": "TIMESTAMP_NTZ",
    "timestamptz_ns": "TIMESTAMP",
    "geometry": "BINARY",
    "geography": "BINARY",
}
_SPARK_TRANSFORMS: Final = {"year": "years", "month": "months", "day": "days", "hour": "hours"}
_SPARK_RESERVED: Final = frozenset({"provider", "location", "owner", "external", "is_managed_location", "comment"})
"""Names that Spark rejects in TBLPROPERTIES."""

_TRINO_TYPES: Final = {
    "boolean": "boolean",
    "int": "integer",
    "long": "bigint",
    "float": "real",
    "double": "double",
    "string": "varchar",
    "binary": "varbinary",
    "uuid": "uuid",
    "date": "date",
    "time": "time(6)",
    "timestamp": "timestamp(6)",
    "timestamptz": "timestamp(6) with time zone",
}
_TRINO_SUBSTITUTES: Final = {
    "fixed": "varbinary",
    "timestamp_ns": "timestamp(6)",
    "timestamptz_ns": "timestamp(6) with time zone",
    "geometry": "varbinary",
    "geography": "varbinary",
    "variant": "varchar",
}


@dataclass(frozen=True, slots=True)
class CreateStatement:
    """SQL that ends with a semicolon and a newline, and sentences about what it leaves out."""

    sql: str
    notes: tuple[str, ...]


class _Notes:
    """Collects what a statement leaves out, in the sequence of the first occurrence."""

    def __init__(self, engine: str) -> None:
        self._engine = engine
        self._names: dict[str, list[str]] = defaultdict(list)

    def add(self, sentence: str, name: str) -> None:
        self._names[sentence].append(name)

    def substitute(self, old: str, new: str, path: str) -> None:
        self.add(f"{self._engine} creates no columns of type {old}, written as {new}", path)

    def sentences(self) -> tuple[str, ...]:
        return tuple(f"{sentence}: {_enumerate(names)}" for sentence, names in self._names.items())


def write_spark_statement(metadata: TableMetadata, names: Sequence[str]) -> CreateStatement:
    """Return the CREATE TABLE statement of Spark SQL for the current schema, default spec and properties of a table.

    `names` are catalog, namespace levels and table name. Sort order and identifier fields follow as ALTER TABLE
    statements, which need Iceberg's SQL extensions.
    """
    notes = _Notes("Spark")
    table = join_backticks(names)
    schema = find_current_schema(metadata) or {}
    properties = _select_properties(metadata, notes)
    lines = [f"CREATE TABLE {table}"]
    columns = [
        _write_spark_field(column, " ", str(column.get("name", "")), notes) for column in list_objects(schema, "fields")
    ]
    if columns:
        lines[0] += " ("
        lines += [",\n".join(f"{_INDENT}{column}" for column in columns), ")"]
    lines.append("USING iceberg")
    terms = _write_terms(metadata, _default_fields(metadata, "partition-specs"), _spark_term, notes)
    if terms:
        lines.append(f"PARTITIONED BY ({', '.join(term for term, _field in terms)})")
    if "comment" in properties:
        lines.append(f"COMMENT {quote_spark_string(properties['comment'])}")
    written = {"format-version": str(metadata.get("format-version", DEFAULT_FORMAT_VERSION))}
    written |= {name: value for name, value in sorted(properties.items()) if name not in _SPARK_RESERVED}
    pairs = [f"{_INDENT}{quote_spark_string(name)} = {quote_spark_string(value)}" for name, value in written.items()]
    lines += ["TBLPROPERTIES (", ",\n".join(pairs), ")"]
    statements = ["\n".join(lines)]
    orders = _write_terms(metadata, _default_fields(metadata, "sort-orders"), _spark_term, notes)
    if orders:
        ordering = ", ".join(f"{term} {_write_direction(field)}" for term, field in orders)
        statements.append(f"ALTER TABLE {table} WRITE LOCALLY ORDERED BY {ordering}")
    identifiers = _find_identifier_parts(schema)
    if identifiers:
        listed = ", ".join(map(join_backticks, identifiers))
        statements.append(f"ALTER TABLE {table} SET IDENTIFIER FIELDS {listed}")
    _note_defaults(schema, notes)
    sentences = [*notes.sentences(), *_describe_invisible(schema, names)]
    if len(statements) > 1:
        sentences.append("ALTER TABLE needs Iceberg's SQL extensions in the session")
    if any("${" in part for part in _list_identifiers(schema, names)):
        sentences.append("A name contains ${: set spark.sql.variable.substitute=false first, or Spark substitutes it")
    return CreateStatement("".join(f"{statement};\n" for statement in statements), tuple(sentences))


def write_trino_statement(metadata: TableMetadata, names: Sequence[str]) -> CreateStatement:
    """Return the CREATE TABLE statement of Trino for the current schema, default spec and sort order of a table.

    `names` are catalog, namespace levels and table name: the levels become one schema name with dots.
    """
    notes = _Notes("Trino")
    schema = find_current_schema(metadata) or {}
    lines = [f"CREATE TABLE {join_identifiers([names[0], '.'.join(names[1:-1]), names[-1]])} ("]
    columns = []
    for column in list_objects(schema, "fields"):
        name = str(column.get("name", ""))
        text = f"{quote_identifier(name)} {_write_trino_type(column.get('type'), name, notes)}"
        text += " NOT NULL" if column.get("required") is True else ""
        text += f" COMMENT {quote_string(column['doc'])}" if isinstance(column.get("doc"), str) else ""
        columns.append(text)
    lines += [",\n".join(f"{_INDENT}{column}" for column in columns), ")"]
    properties = _select_properties(metadata, notes)
    if "comment" in properties:
        lines.append(f"COMMENT {quote_string(properties['comment'])}")
    options = [f"format_version = {metadata.get('format-version', DEFAULT_FORMAT_VERSION)}"]
    if (file_format := properties.get("write.format.default", "").upper()) in {"PARQUET", "ORC", "AVRO"}:
        options.append(f"format = '{file_format}'")
    terms = _write_terms(metadata, _default_fields(metadata, "partition-specs"), _trino_term, notes)
    if terms:
        options.append(f"partitioning = ARRAY[{', '.join(quote_string(term) for term, _field in terms)}]")
    orders = _write_terms(metadata, _default_fields(metadata, "sort-orders"), _trino_sort_term, notes)
    if orders:
        ordering = (quote_string(f"{term} {_write_direction(field)}") for term, field in orders)
        options.append(f"sorted_by = ARRAY[{', '.join(ordering)}]")
    lines += ["WITH (", ",\n".join(f"{_INDENT}{option}" for option in options), ")"]
    _note_defaults(schema, notes)
    sentences = [*notes.sentences(), *_describe_invisible(schema, names)]
    if any(name != name.lower() for name in _list_identifiers(schema, names)):
        sentences.append("Trino creates columns and tables with names in lower case")
    others = sorted(set(properties) - {"comment", "write.format.default"})
    if others:
        sentences.append(f"Trino sets no other properties: {_enumerate(others)}")
    return CreateStatement("\n".join(lines) + ";\n", tuple(sentences))


def _write_spark_field(field: dict[str, Any], separator: str, path: str, notes: _Notes) -> str:
    """`name TYPE`, or `name: TYPE` inside a struct, with NOT NULL and COMMENT."""
    name = quote_backticks(str(field.get("name", "")))
    text = f"{name}{separator}{_write_spark_type(field.get('type'), path, notes)}"
    text += " NOT NULL" if field.get("required") is True else ""
    return text + (f" COMMENT {quote_spark_string(field['doc'])}" if isinstance(field.get("doc"), str) else "")


def _write_spark_type(column_type: Any, path: str, notes: _Notes) -> str:
    match get_type_kind(column_type):
        case "struct":
            members = [
                _write_spark_field(field, ": ", f"{path}.{field.get('name', '')}", notes)
                for field in list_objects(column_type, "fields")
            ]
            return f"STRUCT<{', '.join(members)}>"
        case "list":
            _note_required(column_type, "element", path, notes)
            return f"ARRAY<{_write_spark_type(column_type.get('element'), f'{path}.element', notes)}>"
        case "map":
            _note_required(column_type, "value", path, notes)
            key = _write_spark_type(column_type.get("key"), f"{path}.key", notes)
            return f"MAP<{key}, {_write_spark_type(column_type.get('value'), f'{path}.value', notes)}>"
    text = write_type(column_type)
    if text.startswith("decimal("):
        return text.upper()
    if text == "unknown":
        return "VOID"
    return _translate(text, _SPARK_TYPES, _SPARK_SUBSTITUTES, ("STRING", path, notes))


def _write_trino_type(column_type: Any, path: str, notes: _Notes) -> str:
    match get_type_kind(column_type):
        case "struct":
            members = []
            for field in list_objects(column_type, "fields"):
                name = str(field.get("name", ""))
                inner_path = f"{path}.{name}"
                if isinstance(field.get("doc"), str):
                    notes.add("Trino has no comments of nested fields", inner_path)
                if field.get("required") is True:
                    notes.add("Trino has no NOT NULL of nested fields", inner_path)
                members.append(f"{quote_identifier(name)} {_write_trino_type(field.get('type'), inner_path, notes)}")
            return f"row({', '.join(members)})"
        case "list":
            _note_required(column_type, "element", path, notes)
            return f"array({_write_trino_type(column_type.get('element'), f'{path}.element', notes)})"
        case "map":
            _note_required(column_type, "value", path, notes)
            key = _write_trino_type(column_type.get("key"), f"{path}.key", notes)
            return f"map({key}, {_write_trino_type(column_type.get('value'), f'{path}.value', notes)})"
    text = write_type(column_type)
    if text.startswith("decimal("):
        return text
    return _translate(text, _TRINO_TYPES, _TRINO_SUBSTITUTES, ("varchar", path, notes))


def _translate(text: str, types: dict[str, str], substitutes: dict[str, str], fallback: tuple[str, str, _Notes]) -> str:
    known = types.get(text)
    if known is not None:
        return known
    default, path, notes = fallback
    substitute = substitutes.get(primitive_name(text), default)
    notes.substitute(text, substitute, path)
    return substitute


def _note_required(column_type: dict[str, Any], name: str, path: str, notes: _Notes) -> None:
    if column_type.get(f"{name}-required") is True:
        notes.add("SQL has no NOT NULL of the elements of lists and the values of maps", f"{path}.{name}")


def _note_defaults(schema: dict[str, Any], notes: _Notes) -> None:
    for field in walk_fields(schema):
        if field.initial_default is not None or field.write_default is not None:
            notes.add("Default values are left out", field.path)


def _default_fields(metadata: TableMetadata, name: str) -> list[dict[str, Any]]:
    """The fields of the default partition spec or sort order; `name` is the member that lists all of them."""
    id_name, default_name = ("spec-id", "default-spec-id")
    if name == "sort-orders":
        id_name, default_name = ("order-id", "default-sort-order-id")
    default_id = metadata.get(default_name, 0)
    for document in list_objects(metadata, name):
        if document.get(id_name, 0) == default_id:
            return list_objects(document, "fields")
    return list_objects(metadata, "partition-spec") if name == "partition-specs" else []


_Term = Callable[[str, str, list[str]], str | None]
"""Writes a term from the name of a transform, its text, and the parts of the column's name; None if it cannot."""


def _write_terms(
    metadata: TableMetadata, fields: list[dict[str, Any]], write: _Term, notes: _Notes
) -> list[tuple[str, dict[str, Any]]]:
    """Terms of a spec or order with their fields; those that cannot be written are noted, void ones are skipped."""
    schema = find_current_schema(metadata) or {}
    parts = _find_name_parts(schema, {source_id for field in fields for source_id in list_source_ids(field)})
    terms = []
    for field in fields:
        transform = read_transform(field)
        if transform.is_void:
            continue
        source_ids = list_source_ids(field)
        is_known = transform.is_known and len(source_ids) == 1 and source_ids[0] in parts
        term = write(transform.name, transform.text, parts[source_ids[0]]) if is_known else None
        if term is None:
            paths = find_source_paths(metadata, [{"fields": [field]}])
            notes.add("Left out of partitioning or order", f"{transform.text}({', '.join(paths.values())})")
        else:
            terms.append((term, field))
    return terms


def _spark_term(name: str, text: str, parts: list[str]) -> str:
    column = join_backticks(parts)
    if name in {"bucket", "truncate"}:
        return f"{name}({_read_width(text)}, {column})"
    return column if name == "identity" else f"{_SPARK_TRANSFORMS[name]}({column})"


def _trino_term(name: str, text: str, parts: list[str]) -> str:
    column = quote_identifier(".".join(parts))
    if name in {"bucket", "truncate"}:
        return f"{name}({column}, {_read_width(text)})"
    return column if name == "identity" else f"{name}({column})"


def _trino_sort_term(name: str, _text: str, parts: list[str]) -> str | None:
    return quote_identifier(".".join(parts)) if name == "identity" else None


def _read_width(transform: str) -> str:
    return transform.partition("[")[2].rstrip("]")


def _write_direction(field: dict[str, Any]) -> str:
    direction = "DESC" if str(field.get("direction", "")).lower() == "desc" else "ASC"
    is_last = str(field.get("null-order", "")).lower() == "nulls-last"
    return f"{direction} NULLS {'LAST' if is_last else 'FIRST'}"


def _find_name_parts(schema: dict[str, Any], field_ids: set[int]) -> dict[int, list[str]]:
    """The names from the column down to each field; a dotted path would not say which dots belong to a name."""
    wanted = set(field_ids)
    found: dict[int, list[str]] = {}
    enclosing: list[SchemaField] = []
    for field in walk_fields(schema):
        if not wanted:
            break
        del enclosing[field.depth :]
        enclosing.append(field)
        if field.field_id is not None and field.field_id in wanted:
            found[field.field_id] = [each.name for each in enclosing]
            wanted.discard(field.field_id)
    return found


def _find_identifier_parts(schema: dict[str, Any]) -> list[list[str]]:
    listed = schema.get("identifier-field-ids")
    field_ids = listed if isinstance(listed, list) else []
    parts = _find_name_parts(schema, set(field_ids))
    return [parts[field_id] for field_id in field_ids if field_id in parts]


def _list_identifiers(schema: dict[str, Any], names: Sequence[str]) -> list[str]:
    return [*names, *(field.name for field in walk_fields(schema))]


def _describe_invisible(schema: dict[str, Any], names: Sequence[str]) -> list[str]:
    found = [name for name in _list_identifiers(schema, names) if show_invisible(name) != name]
    return [f"Names with invisible characters: {_enumerate(found)}"] if found else []


def _select_properties(metadata: TableMetadata, notes: _Notes) -> dict[str, str]:
    """The properties that may be shown; the others are noted by name."""
    properties = metadata.get("properties")
    selected: dict[str, str] = {}
    for name, value in sorted(properties.items()) if isinstance(properties, dict) else []:
        if not isinstance(value, str) or name in RESERVED_PROPERTIES:
            continue
        if looks_secret(name, value):
            notes.add("Left out because they may be secret", name)
        else:
            selected[name] = value
    return selected


def _enumerate(names: Sequence[str]) -> str:
    shown = ", ".join(map(show_invisible, names[:_MAX_NAMED]))
    return shown if len(names) <= _MAX_NAMED else f"{shown} and {len(names) - _MAX_NAMED} more"
