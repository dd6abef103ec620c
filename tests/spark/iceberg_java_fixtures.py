"""Iceberg's own classes behind Spark's gateway, to judge by what our metadata engine does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


class Java:
    """The package `org.apache.iceberg`, and what its REST server does for tables and views alike."""

    def __init__(self, spark: SparkSession) -> None:
        self.iceberg = spark._jvm.org.apache.iceberg

    def parsed(self, *, requirements: list[Any] | None = None, updates: list[Any] | None = None) -> Any:
        """An `UpdateTableRequest`."""
        request = json.dumps({"requirements": requirements or [], "updates": updates or []})
        return self.iceberg.rest.requests.UpdateTableRequestParser.fromJson(request)

    def built(self, builder: Any, updates: list[Any]) -> Any:
        """The metadata that the builder makes of these updates."""
        for update in self.parsed(updates=updates).updates():
            update.applyTo(builder)
        return builder.build()


def java_error(ask: Callable[[], object]) -> str | None:
    """What Java says when it refuses to do it, None when it does it."""
    try:
        ask()
    except (Py4JError, PySparkException) as refused:
        return str(refused)
    return None
