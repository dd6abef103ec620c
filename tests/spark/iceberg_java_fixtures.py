"""Iceberg's own Java classes behind Spark's gateway, as the reference for the metadata engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


class Java:
    """The package `org.apache.iceberg`, and the REST server code that tables and views share."""

    def __init__(self, spark: SparkSession) -> None:
        self.iceberg = spark._jvm.org.apache.iceberg

    def parsed(self, *, requirements: list[Any] | None = None, updates: list[Any] | None = None) -> Any:
        """Return an `UpdateTableRequest`."""
        request = json.dumps({"requirements": requirements or [], "updates": updates or []})
        return self.iceberg.rest.requests.UpdateTableRequestParser.fromJson(request)

    def built(self, builder: Any, updates: list[Any]) -> Any:
        """Return the metadata that the builder creates from these updates."""
        for update in self.parsed(updates=updates).updates():
            update.applyTo(builder)
        return builder.build()


def java_error(ask: Callable[[], object]) -> str | None:
    """Return Java's error message, or None on success."""
    try:
        ask()
    except (Py4JError, PySparkException) as refused:
        return str(refused)
    return None
