"""Options of Java for processes that run for a few minutes."""

SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Neither better code nor another collector pays in so short a time. CPU with these, measured on a busy machine: 60 %
for two files of Spark's tests by themselves, 80 % for all that have Spark work."""
