"""How Java is started for runs of minutes."""

from __future__ import annotations

from tasks.spark.session import machine_settings

JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A run is too short for better code and another collector to pay: with these, tests take 57 % of the CPU."""

SPARK_SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join((machine_settings()["spark.driver.extraJavaOptions"], *JAVA_OPTIONS))
}
"""For the `extra` of a session that starts a Java."""
