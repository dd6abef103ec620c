"""How Java is started for what runs for minutes and then is gone."""

SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Neither better code nor another collector pays in so short a time: Spark's tests take 57 % of the CPU with these."""
