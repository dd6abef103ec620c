"""Conditions of QuerySets that Django does not have."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import F, Lookup


class IsAmong(Lookup):
    """Whether a column of UUIDs has one of `ids`: as `in`, but with one parameter however many ids there are."""

    def __init__(self, column: str, ids: Collection[UUID]) -> None:
        super().__init__(F(column), list(ids))

    def get_prep_lookup(self) -> Any:
        return self.rhs

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        column, params = self.process_lhs(compiler, connection)
        if connection.vendor == "postgresql":
            # As one text: the driver would convert each id on its own.
            return f"{column} = ANY(%s::uuid[])", [*params, f"{{{','.join(each.hex for each in self.rhs)}}}"]
        among = f"{column} IN (SELECT value FROM json_each(%s))"  # noqa: S608 - a column
        return among, [*params, json.dumps([each.hex for each in self.rhs])]
