"""The process environment in which Spark's Java side is started."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tasks.spark.java import quiet_java_home

# Set by other Spark installations on the machine; each would start another Spark than the one imported here.
_FOREIGN = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "SPARK_REMOTE")


@contextmanager
def launch_environment() -> Iterator[None]:
    """Set, for the time of a launch, the variables that pyspark hands to Java, and restore them afterwards.

    pyspark offers no other way: it copies `os.environ` for the process it starts. Raises `JavaNotFoundError`.
    """
    wanted: dict[str, str | None] = dict.fromkeys(_FOREIGN)
    wanted["JAVA_HOME"] = str(quiet_java_home())
    wanted["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    _apply(wanted)
    try:
        yield
    finally:
        _apply(before)


def _apply(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
