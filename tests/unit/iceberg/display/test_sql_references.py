"""Names of tables and views in SQL texts, and comparisons by line."""

from __future__ import annotations

from random import Random
from time import process_time

import pytest

from catalog.iceberg.display.line_comparison import MAX_LINES, compare_lines
from catalog.iceberg.display.sql_references import MAX_REFERENCES, MAX_SQL_LENGTH, find_references


def names(sql: str, dialect: str = "") -> list[str]:
    return [" ".join(parts) for parts in find_references(sql, dialect).names]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT 1", []),
        ("select * from a", ["a"]),
        ("SELECT * FROM a.b.c AS x, `d e`.`f``g` y, \"h\".\"i\"\"j\"", ["a b c", "d e f`g", 'h i"j']),
        ("SELECT a, b FROM x WHERE a IN (SELECT c, d FROM y), z", ["x", "y"]),
        ("SELECT 'FROM s', \"from\" FROM t -- FROM u\n/* FROM v */ JOIN w ON 1 = 1", ["t", "w"]),
        ("SELECT * FROM a LEFT JOIN b USING (k) CROSS JOIN (c JOIN (SELECT 1 FROM d) q ON true)", ["a", "b", "c", "d"]),
        ("SELECT EXTRACT(YEAR FROM day), TRIM(BOTH 'x' FROM n) FROM t WHERE a IS DISTINCT FROM b", ["t"]),
        ("SELECT * FROM t, UNNEST(t.list) AS u (x, y), LATERAL (SELECT * FROM v), range(5)", ["t", "v"]),
        ("SELECT k, n FROM t LATERAL VIEW explode(m) e AS k, n JOIN u ON true", ["t", "u"]),
        ("WITH a AS (SELECT * FROM b), c (x, y) AS (SELECT 1, 2 FROM a) SELECT * FROM c JOIN d.a", ["b", "d a"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH RECURSIVE r AS (SELECT 1 UNION ALL SELECT n FROM R JOIN s ON true) SELECT * FROM r", ["s"]),
        ("SELECT * FROM (WITH i AS (SELECT * FROM j) SELECT * FROM i) q, i", ["j", "i"]),
        ("SELECT * FROM a UNION ALL (SELECT * FROM b) EXCEPT SELECT * FROM c ORDER BY 1, 2", ["a", "b", "c"]),
        ("SELECT * FROM t FOR VERSION AS OF 1 WHERE EXISTS (SELECT 1 FROM u GROUP BY x, y)", ["t", "u"]),
        ("SELECT * FROM (VALUES (1, 2), (3, 4)) v (a, b), VALUES", []),
        ("SELECT * FROM a.", ["a"]),
        ("SELECT * FROM ))) , (", []),
        ("", []),
    ],
)  # fmt: skip
def test_names(sql: str, found: list[str]) -> None:
    assert names(sql) == found


def test_a_backslash_escapes_in_some_dialects() -> None:
    sql = r"SELECT '\' FROM a', ' FROM b"
    assert names(sql, "trino") == ["a", "b"]
    assert names(sql, "spark") == []
    assert names(r"SELECT 'it\'s FROM a' FROM b", "Spark") == ["b"]


def test_hostile_texts_take_little_time() -> None:
    size = MAX_SQL_LENGTH // 4
    texts = ["(" * size, "'" * size, "/*" * (size // 2), "SELECT * FROM (" * (size // 15), "a." * (size // 2)]
    texts += ['"' * (size - 1), "SELECT * FROM " + "," * (size - 14), "WITH a AS (" * (size // 11), "\\'" * (size // 2)]
    texts.append("'" + "\\'" * (size // 2) + "\\")
    begin = process_time()
    for text in texts:
        find_references(text, "spark")
    assert process_time() - begin < 5
    assert find_references(" " * (MAX_SQL_LENGTH + 1)) == ((), False)
    tables = ", ".join(f"t{number}" for number in range(MAX_REFERENCES + 1))
    many = find_references(f"SELECT * FROM {tables}")  # noqa: S608 - executed nowhere
    assert (len(many.names), many.is_complete) == (MAX_REFERENCES, False)


def test_lines_are_compared() -> None:
    assert compare_lines("a\nb", "a\nb").groups == compare_lines("a\nb\r\n", "a\nb").groups == ()
    old = "\n".join(f"line {number}" for number in range(20))
    (group,) = compare_lines(old, old.replace("line 9", "<new>\nmore")).groups
    assert [(each.sign, each.old_number, each.new_number, each.text) for each in group][2:8] == [
        ("", 9, 9, "line 8"), ("-", 10, None, "line 9"), ("+", None, 10, "<new>"), ("+", None, 11, "more"),
        ("", 11, 12, "line 10"), ("", 12, 13, "line 11"),
    ]  # fmt: skip
    assert compare_lines("", "a").groups[0][0].sign == "+"
    assert compare_lines("a\n" * (MAX_LINES + 1), "b").is_too_long
    lines = [str(number) for number in range(MAX_LINES)]
    shuffled = Random(1).sample(lines, MAX_LINES)
    begin = process_time()
    compare_lines("\n".join(lines), "\n".join(shuffled))
    compare_lines("a\nb\n" * (MAX_LINES // 2), "b\na\n" * (MAX_LINES // 2))
    assert process_time() - begin < 5
