"""Run the SQL statements of a JSON list on standard input in a new Sail server, and print the rows of each as JSON.

It runs in Sail's own environment (`tests/parts/sail.py`).
"""

import json
import sys

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

server = SparkConnectServer("127.0.0.1", 0)
server.start(background=True)
_, port = server.listening_address
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
rows = [[list(row) for row in spark.sql(statement).collect()] for statement in json.load(sys.stdin)]
print(json.dumps(rows, default=str))
spark.stop()
server.stop()
