"""The loading half of the demo: five tables of real data through an Iceberg REST catalog, changed in many ways.

Each step checks its own effect. In the end the tables hold exactly what the CSV files do (flights with one more
column), so that another process can compare them with the files.
"""

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the customary name

from tasks.spark.facts import FIRST_DAYS, ColumnFacts, FlightFigures, TableFacts, differences
from tasks.spark.flights import AIRLINES, AIRPORTS, DATASETS, FLIGHTS, MISSING, PLANES, WEATHER, Dataset, unpack_csv
from tasks.spark.progress import PipelineStep, check

TAG = "before_cancellations"


@dataclass(frozen=True)
class Ingest:
    """What every step of a load needs. The session's current catalog is the one that is loaded into."""

    spark: SparkSession
    folder: Path
    """A scratch folder that outlives the run, for the unpacked CSV files."""
    expected: dict[str, TableFacts]
    """By name of the data set, from the CSV files."""
    figures: FlightFigures

    def source(self, dataset: Dataset) -> DataFrame:
        """The data set's CSV file as a frame; a line that does not fit the schema is an error."""
        return self.spark.read.csv(
            str(unpack_csv(dataset, self.folder)),
            schema=dataset.ddl,
            header=True,
            enforceSchema=False,
            nullValue=MISSING,
            escape='"',
            mode="FAILFAST",
        )

    def check_table(self, dataset: Dataset) -> TableFacts:
        """Compare a stored table with its file, by count, sums, months and fingerprint."""
        found = facts_through_spark(dataset, self.spark.table(dataset.table))
        wrong = differences(self.expected[dataset.name], found)
        check(not wrong, f"{dataset.table} differs from its file: {'; '.join(wrong)}")
        return found

    def one(self, statement: str) -> Row:
        """Return the single row that a query gives."""
        (row,) = self.spark.sql(statement).collect()
        return row


def facts_through_spark(dataset: Dataset, frame: DataFrame) -> TableFacts:
    """Compute the facts of the data set's columns from a Spark frame, in one pass (two with months)."""
    text = F.concat_ws(",", *[F.coalesce(F.col(c).cast("string"), F.lit(MISSING)) for c in dataset.exact_columns])
    wanted: list[Column] = [F.count(F.lit(1)).alias("rows"), F.sum(F.crc32(text)).alias("fingerprint")]
    for name, kind in dataset.columns.items():
        column = F.col(name)
        wanted.append(F.count(column).alias(f"present {name}"))
        if kind == "string":
            # not count(distinct): several of those in one query multiply the rows
            wanted.append(F.size(F.collect_set(column)).alias(f"distinct {name}"))
        else:
            number = F.unix_seconds(column) if kind == "timestamp" else column
            wanted.append(F.sum(number).alias(f"total {name}"))
    (row,) = frame.agg(*wanted).collect()
    found = row.asDict()
    columns = {
        name: ColumnFacts(found[f"present {name}"], found.get(f"distinct {name}"), found.get(f"total {name}"))
        for name in dataset.columns
    }
    months = frame.groupBy("month").count().orderBy("month").collect() if "month" in dataset.columns else []
    return TableFacts(found["rows"], found["fingerprint"] or 0, columns, {row["month"]: row["count"] for row in months})


def create_namespaces(run: Ingest) -> str:
    """Create `nyc` and, inside it, `nyc.reference`."""
    run.spark.sql("CREATE NAMESPACE IF NOT EXISTS nyc COMMENT 'Flights that left New York City in 2013'")
    run.spark.sql("CREATE NAMESPACE IF NOT EXISTS nyc.reference COMMENT 'Slowly changing tables'")
    inside = [row[0] for row in run.spark.sql("SHOW NAMESPACES IN nyc").collect()]
    check("nyc.reference" in inside, f"nyc holds the namespaces {inside}, without nyc.reference")
    return "nyc, nyc.reference"


def drop_earlier_tables(run: Ingest) -> str:
    """Drop with their files the tables that an earlier load left."""
    left = 0
    for dataset in DATASETS:
        left += run.spark.catalog.tableExists(dataset.table)
        run.spark.sql(f"DROP TABLE IF EXISTS {dataset.table} PURGE")
        check(not run.spark.catalog.tableExists(dataset.table), f"{dataset.table} is there after its drop")
    return f"{left} dropped"


def load_small_tables(run: Ingest) -> str:
    """Create airlines, airports and weather from queries; the catalog creates each together with its first snapshot."""
    for dataset in (AIRLINES, AIRPORTS):
        run.source(dataset).writeTo(dataset.table).create()
        run.check_table(dataset)
    run.source(WEATHER).writeTo(WEATHER.table).partitionedBy(F.col("origin")).create()
    stored = run.check_table(WEATHER)
    return f"{stored.rows:,} rows of weather in 3 partitions"


def load_outdated_planes(run: Ingest) -> str:
    """Create planes as an older register might be: Embraer's are absent, Boeing's have no seats."""
    run.source(PLANES).createOrReplaceTempView("planes_csv")
    run.spark.sql("""
        CREATE TABLE nyc.reference.planes PARTITIONED BY (bucket(2, tailnum)) AS
        SELECT tailnum, year, type, manufacturer, model, engines,
               CASE WHEN manufacturer = 'BOEING' THEN NULL ELSE seats END AS seats, speed, engine
        FROM planes_csv WHERE manufacturer <> 'EMBRAER'""")
    stored = run.spark.table(PLANES.table).count()
    check(0 < stored < run.expected["planes"].rows, f"{stored} planes in the outdated register")
    return f"{stored:,} planes"


def merge_planes(run: Ingest) -> str:
    """Bring planes up to date from the file with one MERGE that updates and inserts."""
    count = "SELECT count(*) AS rows, count(seats) AS seats FROM nyc.reference.planes"
    before = run.one(count)
    run.spark.sql("""
        MERGE INTO nyc.reference.planes AS stored USING planes_csv AS new ON stored.tailnum = new.tailnum
        WHEN MATCHED AND NOT (stored.seats <=> new.seats) THEN UPDATE SET *
        WHEN NOT MATCHED THEN INSERT *""")
    run.check_table(PLANES)
    after = run.one(count)
    inserted = after.rows - before.rows
    updated = after.seats - before.seats - inserted
    check(inserted > 0 and updated > 0, f"MERGE inserted {inserted} and updated {updated} planes")
    return f"{updated:,} updated, {inserted:,} inserted"


def append_first_days(run: Ingest) -> str:
    """Create flights, partitioned by month, and append the first days of January one by one."""
    source = run.source(FLIGHTS).cache()
    is_first = (F.col("month") == 1) & F.col("day").isin(*FIRST_DAYS)
    source.where(~is_first).createOrReplaceTempView("rest_of_year")
    run.spark.sql(f"""
        CREATE TABLE nyc.flights ({FLIGHTS.ddl}) PARTITIONED BY (months(time_hour))
        TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')""")
    for day, flights in zip(FIRST_DAYS, run.figures.on_first_days, strict=True):
        before = run.spark.table(FLIGHTS.table).count()
        rows = source.where((F.col("month") == 1) & (F.col("day") == day))
        rows.writeTo(FLIGHTS.table).append()
        stored = run.spark.table(FLIGHTS.table).count() - before
        check(stored == flights, f"{stored} flights appended on January {day}, the file has {flights}")
    return f"{len(FIRST_DAYS)} snapshots, {sum(run.figures.on_first_days):,} rows"


def append_rest(run: Ingest) -> str:
    """Append all other flights of the year at once."""
    run.spark.sql("INSERT INTO nyc.flights SELECT * FROM rest_of_year")
    stored = run.check_table(FLIGHTS)
    partitions = run.spark.table("nyc.flights.partitions").count()
    check(partitions >= len(stored.by_month), f"{partitions} partitions for {len(stored.by_month)} months")
    return f"{stored.rows:,} rows in {partitions} partitions (UTC months)"


def tag_snapshot(run: Ingest) -> str:
    """Tag the snapshot that holds everything."""
    run.spark.sql(f"ALTER TABLE nyc.flights CREATE TAG {TAG}")
    refs = {row["name"]: row for row in run.spark.table("nyc.flights.refs").collect()}
    check(TAG in refs and refs[TAG]["type"] == "TAG", f"references after CREATE TAG: {sorted(refs)}")
    check(refs[TAG]["snapshot_id"] == refs["main"]["snapshot_id"], f"{TAG} is not the current snapshot: {refs}")
    return f"{TAG} = {refs[TAG]['snapshot_id']}"


def delete_cancelled(run: Ingest) -> str:
    """Delete the flights that never left; the rows are marked in delete files."""
    run.spark.sql("DELETE FROM nyc.flights WHERE dep_time IS NULL")
    left = run.spark.table(FLIGHTS.table).count()
    wanted = run.expected["flights"].rows - run.figures.cancelled
    check(left == wanted, f"{left} flights after the DELETE instead of {wanted}")
    marked = run.one("SELECT count(*) AS files, sum(record_count) AS rows FROM nyc.flights.delete_files")
    check(marked.rows == run.figures.cancelled, f"delete files mark {marked.rows} rows of {run.figures.cancelled}")
    return f"{run.figures.cancelled:,} rows, {left:,} left, {marked.files} delete files"


def travel_in_time(run: Ingest) -> str:
    """Read the table by tag, and as of the moment of its first append."""
    by_tag = run.one(f"SELECT count(*) FROM nyc.flights VERSION AS OF '{TAG}'")[0]  # noqa: S608  a constant
    check(by_tag == run.expected["flights"].rows, f"{by_tag} flights in the tagged version")
    # as text: Python would be given the moment in the machine's time zone, without saying so
    first = run.one("SELECT CAST(min(made_current_at) AS STRING) FROM nyc.flights.history")[0]
    by_time = run.spark.read.option("timestampAsOf", first).table(FLIGHTS.table).count()
    check(by_time == run.figures.on_first_days[0], f"{by_time} flights as of {first}")
    return f"{by_tag:,} rows by tag, {by_time:,} as of {first}"


def merge_back(run: Ingest) -> str:
    """Bring the deleted rows back with a MERGE from the tagged version."""
    run.spark.sql(f"""
        MERGE INTO nyc.flights AS stored
        USING (SELECT * FROM nyc.flights VERSION AS OF '{TAG}' WHERE dep_time IS NULL) AS tagged
        ON stored.time_hour = tagged.time_hour AND stored.carrier = tagged.carrier AND stored.flight = tagged.flight
        WHEN NOT MATCHED THEN INSERT *""")  # noqa: S608  a constant
    stored = run.check_table(FLIGHTS)
    return f"{run.figures.cancelled:,} rows back, {stored.rows:,} in all"


def compact(run: Ingest) -> str:
    """Rewrite the small files of each month, and those with deleted rows, into one."""
    before = run.spark.table("nyc.flights.data_files").count()
    crowded = run.one("SELECT max(file_count) FROM nyc.flights.partitions")[0]
    check(crowded > len(FIRST_DAYS), f"at most {crowded} files in a partition: nothing to compact")
    done = run.one("""
        CALL system.rewrite_data_files(table => 'nyc.flights', options => map(
            'min-input-files', '2', 'delete-file-threshold', '1', 'remove-dangling-deletes', 'true'))""")
    check(done.failed_data_files_count == 0, f"{done.failed_data_files_count} files could not be rewritten")
    check(
        done.rewritten_data_files_count > done.added_data_files_count > 0,
        f"{done.rewritten_data_files_count} files rewritten into {done.added_data_files_count}",
    )
    after = run.spark.table("nyc.flights.data_files").count()
    wanted = before - done.rewritten_data_files_count + done.added_data_files_count
    check(after == wanted, f"{after} data files after compaction instead of {wanted}")
    marks = run.spark.table("nyc.flights.delete_files").count()
    check(marks == 0, f"{marks} delete files after compaction")
    return f"{done.rewritten_data_files_count} files rewritten, {before} -> {after} data files, no delete files"


def evolve_schema(run: Ingest) -> str:
    """Add a column and rename it; no data file is touched."""
    before = run.spark.table("nyc.flights.snapshots").count()
    run.spark.sql("ALTER TABLE nyc.flights ADD COLUMN gain INT COMMENT 'departure delay minus arrival delay'")
    run.spark.sql("ALTER TABLE nyc.flights RENAME COLUMN gain TO minutes_gained")
    names = run.spark.table(FLIGHTS.table).columns
    check(names == [*FLIGHTS.columns, "minutes_gained"], f"columns after ADD and RENAME: {names}")
    check(run.spark.table("nyc.flights.snapshots").count() == before, "a schema change created a snapshot")
    return "gain added, renamed to minutes_gained"


def evolve_partitioning(run: Ingest) -> str:
    """Partition what is written from now on by origin as well."""
    run.spark.sql("ALTER TABLE nyc.flights ADD PARTITION FIELD origin")
    fields = run.spark.table("nyc.flights.partitions").select("partition.*").columns
    check(fields == ["time_hour_month", "origin"], f"partition fields: {fields}")
    return "months(time_hour), origin"


def update_flights(run: Ingest) -> str:
    """Fill the new column; the rewritten files lie in the new partitions."""
    old = run.one("SELECT max(spec_id) FROM nyc.flights.data_files")[0]
    run.spark.sql("""
        UPDATE nyc.flights SET minutes_gained = dep_delay - arr_delay
        WHERE dep_delay IS NOT NULL AND arr_delay IS NOT NULL""")
    check_gain(run.spark, run.figures)
    new = run.one("SELECT max(spec_id) AS spec, count(*) AS files FROM nyc.flights.data_files")
    check(new.spec == old + 1, f"files of partition spec {new.spec} after the UPDATE, {old} before")
    return f"{run.figures.minutes_gained.present:,} rows, {new.files} files in the new partitions"


def check_gain(spark: SparkSession, figures: FlightFigures) -> None:
    """Compare the column that the demo adds with the figures of the file."""
    found = spark.sql("SELECT count(minutes_gained), sum(minutes_gained) FROM nyc.flights").collect()[0]
    want = (figures.minutes_gained.present, figures.minutes_gained.total)
    check(tuple(found) == want, f"minutes_gained: count and sum {tuple(found)} instead of {want}")


def read_back(run: Ingest) -> str:
    """Compare flights with the file once more, after everything."""
    stored = run.check_table(FLIGHTS)
    check_gain(run.spark, run.figures)
    return f"flights: {stored.rows} rows read back through Spark, equal to the file"


STEPS = (
    PipelineStep("create namespaces, one inside the other", create_namespaces),
    PipelineStep("drop tables of an earlier load", drop_earlier_tables),
    PipelineStep("create airlines, airports, weather (CTAS)", load_small_tables),
    PipelineStep("create planes from an outdated register", load_outdated_planes),
    PipelineStep("MERGE planes with the current register", merge_planes),
    PipelineStep("create flights, append the first days", append_first_days),
    PipelineStep("append the rest of the year", append_rest),
    PipelineStep("tag the snapshot", tag_snapshot),
    PipelineStep("DELETE cancelled flights", delete_cancelled),
    PipelineStep("travel back in time by tag and timestamp", travel_in_time),
    PipelineStep("MERGE the deleted flights back", merge_back),
    PipelineStep("compact", compact),
    PipelineStep("add and rename a column", evolve_schema),
    PipelineStep("evolve the partitioning", evolve_partitioning),
    PipelineStep("UPDATE the new column", update_flights),
    PipelineStep("read flights back", read_back),
)
