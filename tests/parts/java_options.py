"""Options of Java for processes that run for a few minutes."""

SHORT_RUN = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
)
"""Neither better code nor another collector pays in so short a time. CPU with these, measured on a busy machine: 60 %
for two files of Spark's tests by themselves, 80 % for all that have Spark work. The check of the classes of jars, left
out by the last, is another 6 to 9 % of a start."""
