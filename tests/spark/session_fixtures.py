"""Spark settings for sessions of tests."""

from __future__ import annotations

from tasks.spark.session import machine_settings
from tests.parts.java_options import SHORT_RUN

SPARK_SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join((machine_settings()["spark.driver.extraJavaOptions"], *SHORT_RUN))
}
"""For the `extra` of a session that starts a Java."""
