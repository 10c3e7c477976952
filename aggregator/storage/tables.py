"""The tables, each column with its meaning and unit (`docs/data-model.md` prints them).

Conventions:

- **uint64.** DAP's times are 64-bit unsigned, which SQLite's signed integers cannot hold, so they
  are 8-byte big-endian blobs (`Uint64`): the byte order is the numeric order, so ranges and
  `ORDER BY` work on every database. They count units of the task's time precision.
- **Counts** of reports and of attempts are ordinary integers: 2^63 reports do not fit on a disk.
- **Seconds** (`…_at`) are seconds since the Unix epoch by the database's clock.
- **`task`** is the small integer key of `tasks`, not the 32-byte id: it stands in every row of the
  widest tables.
- **Secrets** are ciphertext (`crypter`); their comment says so.
- **States** are the words of `states`.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from typing_extensions import override

from aggregator.errors import ParameterError
from aggregator.storage.states import (
    AggregationJobState,
    BatchState,
    CollectionJobState,
    CollectionState,
    LedgerState,
    ResourceState,
)

_UINT64_END = 2**64


class Uint64(TypeDecorator[int]):
    """An integer in [0, 2^64) as eight bytes, most significant first."""

    impl = LargeBinary(8)
    cache_ok = True

    @override
    def process_bind_param(self, value: int | None, dialect: Dialect) -> bytes | None:
        return None if value is None else uint64(value)

    @override
    def process_result_value(self, value: bytes | None, dialect: Dialect) -> int | None:
        return None if value is None else int.from_bytes(value, "big")


def uint64(value: int) -> bytes:
    """Return `value` as eight bytes, most significant first.

    Raises:
        ParameterError: `value` is outside [0, 2^64).
    """
    if not 0 <= value < _UINT64_END:
        raise ParameterError(f"a 64-bit time must be in [0, 2^64), not {value}")
    return value.to_bytes(8, "big")


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_BIGINT = BigInteger().with_variant(Integer, "sqlite")  # whose INTEGER has 64 bits


def _only(rows: str) -> dict[str, Any]:
    """Return the options of an index of only the rows that fulfil a condition, in SQL."""
    return {"sqlite_where": text(rows), "postgresql_where": text(rows)}


def _key(comment: str = "Key within this database.") -> Column[int]:
    return Column("id", _BIGINT, primary_key=True, comment=comment)


def _task(*, primary_key: bool = False) -> Column[int]:
    return Column(
        "task",
        _BIGINT,
        ForeignKey("tasks.id"),
        primary_key=primary_key,
        nullable=False,
        comment="The task, by its key in `tasks`.",
    )


def _batch(*, selected_later: bool = False) -> tuple[Column[bytes], Column[bytes]]:
    until = " Null until the Leader has selected the batch." if selected_later else ""
    return (
        Column(
            "first_bucket",
            LargeBinary,
            nullable=selected_later,
            comment=f"Key of the batch's first bucket, as in `buckets`.{until}",
        ),
        Column(
            "last_bucket",
            LargeBinary,
            nullable=selected_later,
            comment=f"Key of its last bucket.{until}",
        ),
    )


def _state(
    states: type[AggregationJobState | CollectionJobState | BatchState]
    | type[ResourceState | LedgerState | CollectionState],
) -> tuple[Column[str], CheckConstraint]:
    words = ", ".join(f"'{state}'" for state in states)
    column = Column("state", Text, nullable=False, comment=f"One of {words.replace(chr(39), '`')}.")
    return column, CheckConstraint(f"state IN ({words})", name="state")


def _lease() -> tuple[Column[bytes], Column[int], Column[int]]:
    return (
        Column(
            "lease_token",
            LargeBinary(16),
            comment="Random token of the driver that holds the job; null while nobody does.",
        ),
        Column(
            "lease_expires_at",
            _BIGINT,
            nullable=False,
            comment="Seconds; nobody else may lease the job before. Also a retry's earliest time.",
        ),
        Column(
            "lease_attempts",
            Integer,
            nullable=False,
            comment="Leases taken since the job last made progress.",
        ),
    )


def _reason() -> Column[str]:
    return Column(
        "reason",
        Text,
        comment="Why it waits, for an operator: the last thing that stood in its way.",
    )


def _seconds(name: str, comment: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, _BIGINT, nullable=nullable, comment=comment)


tasks = Table(
    "tasks",
    metadata,
    _key("Key within this database; other tables name the task by it."),
    Column("task_id", LargeBinary(32), nullable=False, unique=True, comment="Its 32-byte TaskID."),
    Column("role", Text, nullable=False, comment="What we are in this task: `leader`, `helper`."),
    Column("definition", Text, nullable=False, comment="The public task file, as it was given."),
    Column(
        "verify_key_id",
        Integer,
        nullable=False,
        comment="Id of the task's one verification key, 0 to 255. The key of a task never changes, "
        "so no report can be verified under a second one.",
    ),
    Column(
        "verify_key",
        LargeBinary,
        nullable=False,
        comment="Ciphertext of the VDAF verification key, 32 bytes.",
    ),
    Column(
        "peer_token",
        LargeBinary,
        comment="Leader: ciphertext of the bearer token that we show to the Helper.",
    ),
    _seconds("created_at", "Seconds; when the task was stored."),
    _seconds(
        "ended_at", "Seconds; no upload is taken from then on. Null while open.", nullable=True
    ),
    _seconds(
        "forgotten_at",
        "Seconds; from then on it is served no more, its secrets are empty, and its rows but those "
        "of `ledger` are deleted.",
        nullable=True,
    ),
    sqlite_strict=True,
)

caller_tokens = Table(
    "caller_tokens",
    metadata,
    _task(primary_key=True),
    Column("token_hash", LargeBinary(32), primary_key=True, comment="SHA-256 of the token."),
    _seconds("created_at", "Seconds; when the token was made or came with the task."),
    _seconds("expires_at", "Seconds; refused from then on. Null without an end.", nullable=True),
    comment="Both: the bearer tokens that the caller of our protected resources may show, which is "
    "the Leader at the Helper and the Collector at the Leader. Rows stay, to be told from others.",
    sqlite_strict=True,
)

hpke_keys = Table(
    "hpke_keys",
    metadata,
    Column(
        "config_id",
        Integer,
        primary_key=True,
        autoincrement=False,
        comment="HpkeConfigId, 0 to 255; ids go round, and none is used twice at a time.",
    ),
    Column("config", LargeBinary, nullable=False, comment="The encoded HpkeConfig."),
    Column("private_key", LargeBinary, nullable=False, comment="Ciphertext of the private key."),
    _seconds("created_at", "Seconds; when the key pair was stored."),
    _seconds(
        "retired_at",
        "Seconds; from when on the key is no longer advertised. It still opens reports; the row "
        "leaves when none can need it any more.",
        nullable=True,
    ),
    sqlite_strict=True,
)

report_ids = Table(
    "report_ids",
    metadata,
    _task(primary_key=True),
    Column("report_id", LargeBinary(16), primary_key=True, comment="DAP ReportID, 16 bytes."),
    comment="Leader: every report id ever uploaded. Being there is the duplicate check, so rows "
    "are narrow and outlive the bodies.",
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

reports = Table(
    "reports",
    metadata,
    _key("Key; its order is the order of arrival and of a job's reports."),
    _task(),
    Column("report_id", LargeBinary(16), nullable=False, comment="DAP ReportID, 16 bytes."),
    Column(
        "bucket",
        LargeBinary,
        nullable=False,
        comment="The bucket it falls in; empty until its job decides that, if the job does.",
    ),
    _seconds("received_at", "Seconds; when the report was stored."),
    Column(
        "job",
        _BIGINT,
        ForeignKey("aggregation_jobs.id"),
        comment="The aggregation job that claimed it; null while unclaimed.",
    ),
    _seconds(
        "waits_until",
        "Seconds; no job claims it before, for an aggregator found it too early. Null for at once.",
        nullable=True,
    ),
    Column(
        "body",
        LargeBinary,
        nullable=False,
        comment="The encoded Report as it came: both input shares are still HPKE ciphertext.",
    ),
    # Serves claiming (job null, first bucket first), a job's reports, and counting a batch's.
    Index(None, "task", "job", "bucket"),
    comment="Leader: bodies of reports that are not aggregated yet. A row leaves with its job.",
    sqlite_strict=True,
)

waiting_reports = Table(
    "waiting_reports",
    metadata,
    _task(primary_key=True),
    Column("bucket", LargeBinary, primary_key=True, comment="The bucket, as in `reports`."),
    Column("reports", _BIGINT, nullable=False, comment="How many rows of `reports` it has."),
    CheckConstraint("reports >= 0", name="reports"),
    comment="Leader: how many reports of each bucket are stored and not aggregated yet. A row "
    "leaves with its last report.",
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

report_counters = Table(
    "report_counters",
    metadata,
    _task(primary_key=True),
    Column("stage", Text, primary_key=True, comment="`upload` or `aggregation`."),
    Column("reason", Text, primary_key=True, comment="`stored`, `aggregated`, or why not."),
    Column("reports", _BIGINT, nullable=False, comment="How many reports."),
    sqlite_strict=True,
)

aggregation_jobs = Table(
    "aggregation_jobs",
    metadata,
    _key(),
    _task(),
    Column(
        "job_id",
        LargeBinary(16),
        nullable=False,
        unique=True,
        comment="Our own random name of the job, 16 bytes, for logs.",
    ),
    *_state(AggregationJobState),
    Column(
        "bucket",
        LargeBinary,
        comment="The bucket of all its reports, if the Leader selects batches; otherwise null.",
    ),
    Column(
        "request",
        LargeBinary,
        comment="The exact AggregationJobInitReq, stored before it is sent and sent again on every "
        "retry; null before `sent` and after the end.",
    ),
    Column(
        "request_sha256",
        LargeBinary(32),
        comment="SHA-256 of `request`, by which the Helper knows the job too; kept at the end.",
    ),
    Column(
        "helper_location",
        Text,
        comment="Where the Helper put the job (its Location header), to poll or delete it.",
    ),
    Column(
        "failures",
        Integer,
        nullable=False,
        comment="Refusals and unusable answers to `request` so far.",
    ),
    Column(
        "unanswered",
        Integer,
        nullable=False,
        comment="How often `request` was sent and neither refused nor turned away before it "
        "arrived: if 0, the Helper has surely not processed it.",
    ),
    _reason(),
    *_lease(),
    _seconds("created_at", "Seconds; when the reports were claimed."),
    _seconds("ended_at", "Seconds; when it finished or was abandoned.", nullable=True),
    Index(None, "state", "lease_expires_at", "task"),
    # Serves filling batches that the Leader selects.
    Index(None, "task", "bucket", **_only("bucket IS NOT NULL")),
    comment="Leader: aggregation jobs.",
    sqlite_strict=True,
)

aggregated_reports = Table(
    "aggregated_reports",
    metadata,
    _task(primary_key=True),
    Column("report_id", LargeBinary(16), primary_key=True, comment="DAP ReportID, 16 bytes."),
    comment="Both: ids of reports whose out shares are in a bucket, written in the bucket's own "
    "transaction. Being there is the replay check.",
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

bucket_keys = Table(
    "bucket_keys",
    metadata,
    _task(primary_key=True),
    Column("bucket", LargeBinary, primary_key=True, comment="As in `buckets`."),
    Column(
        "slot",
        BigInteger().with_variant(Integer, "sqlite"),
        nullable=False,
        unique=True,
        comment="Where the key file, or `bucket_key_slots`, has the ciphertext of the random key "
        "under which the bucket's share is encrypted.",
    ),
    comment="Both: one random key per bucket, in a file beside an SQLite database. Overwriting it "
    "there destroys the bucket's share, and every copy of it that may be left in free pages or in "
    "the log.",
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

bucket_key_slots = Table(
    "bucket_key_slots",
    metadata,
    Column("slot", _BIGINT, primary_key=True, comment="As in `bucket_keys`; never used again."),
    Column("key", LargeBinary, nullable=False, comment="Ciphertext of a bucket's random key."),
    comment="Both, on a PostgreSQL server only: the keys that otherwise lie in the key file.",
    sqlite_strict=True,
)

bucket_shares = Table(
    "bucket_shares",
    metadata,
    _task(primary_key=True),
    Column("bucket", LargeBinary, primary_key=True, comment="As in `buckets`."),
    Column(
        "share",
        LargeBinary,
        nullable=False,
        comment="The un-noised aggregate share, ciphertext under the bucket's key.",
    ),
    comment="Both: what the reports of each bucket add up to. Once its batch is released, a row is "
    "without a key, and deleted soon afterwards.",
    sqlite_strict=True,
)

buckets = Table(
    "buckets",
    metadata,
    _task(primary_key=True),
    Column(
        "bucket",
        LargeBinary,
        primary_key=True,
        comment="The bucket's key, which the batch mode makes: in time-interval mode its unit of "
        "time, 8 bytes, most significant first; in leader-selected mode its batch id, 32 bytes.",
    ),
    Column("report_count", _BIGINT, nullable=False, comment="Reports in the share."),
    Column(
        "checksum", LargeBinary(32), nullable=False, comment="XOR of SHA-256 of their report ids."
    ),
    Column("first_time", Uint64, comment="The earliest of their times; null without a report."),
    Column("last_time", Uint64, comment="The latest of their times; null without a report."),
    comment="Both: batch buckets, without their shares: rows are narrow, so that a batch of many "
    "buckets is counted at once.",
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

job_shares = Table(
    "job_shares",
    metadata,
    _key(),
    _task(),
    Column("bucket", LargeBinary, nullable=False, comment="As in `buckets`."),
    Column(
        "job",
        LargeBinary(32),
        nullable=False,
        comment="SHA-256 of the AggregationJobInitReq, the same for both aggregators.",
    ),
    Column(
        "share",
        LargeBinary,
        nullable=False,
        comment="What the job added to the bucket's share, ciphertext under the bucket's key.",
    ),
    Column("report_count", _BIGINT, nullable=False, comment="Reports of the job in the bucket."),
    Column(
        "checksum", LargeBinary(32), nullable=False, comment="XOR of SHA-256 of their report ids."
    ),
    Column("first_time", Uint64, nullable=False, comment="The earliest of their times."),
    Column("last_time", Uint64, nullable=False, comment="The latest of their times."),
    _seconds("counted_at", "Seconds; when they were added."),
    Index(None, "task", "bucket", "job"),
    comment="Both: what each aggregation job added to a bucket, until the bucket is released. So "
    "aggregators that disagree on a batch can name the jobs that differ, and leave them out.",
    sqlite_strict=True,
)

closed_batches = Table(
    "closed_batches",
    metadata,
    _key(),
    _task(),
    *_batch(),
    *_state(BatchState),
    _seconds("changed_at", "Seconds; when the state was entered."),
    Column(
        "leftovers",
        Integer,
        nullable=False,
        comment="1 while rows of `bucket_shares` of the collected batch are still to be deleted.",
    ),
    Index(None, "task", "first_bucket", unique=True),
    Index("ix_closed_batches_leftovers", "id", **_only("leftovers = 1")),
    comment="Both: batches that take no more reports, as ranges of buckets in the order of their "
    "keys; those of one task never overlap. So it is in every batch mode: an interval of 2^63 "
    "units of time is one row, and a batch that has a name is a range of one key.",
    sqlite_strict=True,
)

collection_jobs = Table(
    "collection_jobs",
    metadata,
    _key(),
    _task(),
    Column(
        "job_id",
        LargeBinary(16),
        nullable=False,
        unique=True,
        comment="Random id in the resource's URL, 16 bytes.",
    ),
    Column("body_sha256", LargeBinary(32), nullable=False, comment="SHA-256 of `request`."),
    Column("request", LargeBinary, nullable=False, comment="The exact CollectionJobReq."),
    *_batch(selected_later=True),
    *_state(CollectionJobState),
    Column(
        "aggregate_share_request",
        LargeBinary,
        comment="The exact AggregateShareReq, stored on freezing, sent on every retry.",
    ),
    Column(
        "helper_location",
        Text,
        comment="Where the Helper put its share (its Location header), to poll it.",
    ),
    Column(
        "leader_share", LargeBinary, comment="Our noised share, sealed: an encoded HpkeCiphertext."
    ),
    Column(
        "helper_share",
        LargeBinary,
        comment="The Helper's share, the same.",
    ),
    Column("report_count", _BIGINT, comment="Reports in the batch, once finished."),
    Column("interval_start", Uint64, comment="First unit of the smallest interval of the reports."),
    Column("interval_end", Uint64, comment="The unit after its last one."),
    Column("problem", Text, comment="The problem document of a failed job, JSON."),
    _seconds(
        "refused_since",
        "Seconds; since when the Helper has refused without saying why in DAP's terms. Null if it "
        "does not.",
        nullable=True,
    ),
    _reason(),
    *_lease(),
    _seconds("created_at", "Seconds; when the job was asked for."),
    _seconds("ended_at", "Seconds; when it finished, failed or was deleted.", nullable=True),
    Index(
        "uq_collection_jobs_live_request",
        "task",
        "body_sha256",
        unique=True,
        **_only("state IN ('start', 'frozen', 'finished')"),
    ),
    Index(None, "state", "lease_expires_at", "task"),
    Index(None, "task", "first_bucket"),
    comment="Leader: collection jobs and their results.",
    sqlite_strict=True,
)

answered_jobs = Table(
    "answered_jobs",
    metadata,
    _key(),
    _task(),
    Column("body_sha256", LargeBinary(32), nullable=False, comment="SHA-256 of the request body."),
    Column(
        "job_id",
        LargeBinary(16),
        nullable=False,
        unique=True,
        comment="Random id in the resource's URL, 16 bytes.",
    ),
    *_state(ResourceState),
    Column("response", LargeBinary, comment="The exact AggregationJobResp; null once deleted."),
    _seconds("created_at", "Seconds; when the request was answered."),
    Index(
        "uq_answered_jobs_live_request",
        "task",
        "body_sha256",
        unique=True,
        **_only("state = 'live'"),
    ),
    comment="Helper: aggregation jobs, answered, so that the same request gets the same bytes.",
    sqlite_strict=True,
)

aggregate_shares = Table(
    "aggregate_shares",
    metadata,
    _key(),
    _task(),
    Column(
        "share_id",
        LargeBinary(16),
        nullable=False,
        unique=True,
        comment="Random id in the resource's URL, 16 bytes.",
    ),
    Column("selector", LargeBinary, nullable=False, comment="The encoded BatchSelector."),
    Column("body_sha256", LargeBinary(32), nullable=False, comment="SHA-256 of the request body."),
    *_state(ResourceState),
    Column("response", LargeBinary, comment="The exact AggregateShare; null once deleted."),
    Column("report_count", _BIGINT, nullable=False, comment="Reports in the batch."),
    _seconds("created_at", "Seconds; when the share was released."),
    UniqueConstraint("task", "selector"),
    comment="Helper: released aggregate shares. A batch is released once, so a row is never "
    "replaced; after a deletion the same request is refused.",
    sqlite_strict=True,
)

ledger = Table(
    "ledger",
    metadata,
    _key(),
    _task(),
    *_state(LedgerState),
    *_batch(),
    Column("mechanism", Text, nullable=False, comment="Its name; `None` adds no noise."),
    Column("epsilon", Text, comment="Exact rational, as text; null where there is none."),
    Column("delta", Text, comment="Exact rational, as text; null where nothing is promised."),
    Column("rho", Text, comment="Exact rational, as text; null where nothing is promised."),
    Column(
        "population",
        Text,
        nullable=False,
        comment="The population that the task declares; costs add up over its tasks.",
    ),
    _seconds("created_at", "Seconds; when the cost was reserved or charged."),
    _seconds("charged_at", "Seconds; when it was released. Null while reserved.", nullable=True),
    Column(
        "share_sha256",
        LargeBinary(32),
        comment="SHA-256 of our sealed share, by which the journal of releases knows it too. Null "
        "without one: reserved, presumed, or charged for what the other aggregator may have sent.",
    ),
    Index(None, "task", "first_bucket", "last_bucket", unique=True),
    Index(None, "population"),
    comment="Both: privacy spent, one row per release, written in the release's own transaction.",
    sqlite_strict=True,
)

populations = Table(
    "populations",
    metadata,
    Column("name", Text, primary_key=True, comment="As tasks declare it."),
    Column("epsilon", Text, comment="Limit on the sum of epsilons, exact; null for none."),
    Column("rho", Text, comment="Limit on the sum of rhos, exact; null for none."),
    Column("delta", Text, nullable=False, comment="Limit on the sum of deltas, exact."),
    Column(
        "is_closed",
        Integer,
        nullable=False,
        comment="1 if no task is added after the first release, otherwise 0.",
    ),
    comment="Both: what the operator allows all tasks of a population together.",
    sqlite_strict=True,
)

collector_tasks = Table(
    "collector_tasks",
    metadata,
    Column("task_id", LargeBinary(32), primary_key=True, comment="DAP TaskID, 32 bytes."),
    Column("definition", Text, nullable=False, comment="The public task file, as it was given."),
    Column(
        "token",
        LargeBinary,
        nullable=False,
        comment="Ciphertext of the bearer token that we show to the Leader.",
    ),
    _seconds("created_at", "Seconds; when the task was stored."),
    comment="Collector: the tasks it collects.",
    sqlite_strict=True,
)

collections = Table(
    "collections",
    metadata,
    _key(),
    Column(
        "collection_id",
        LargeBinary(16),
        nullable=False,
        unique=True,
        comment="Our own random name of the collection, 16 bytes.",
    ),
    Column(
        "task_id",
        LargeBinary(32),
        ForeignKey("collector_tasks.task_id"),
        nullable=False,
        comment="DAP TaskID, 32 bytes.",
    ),
    Column(
        "request",
        LargeBinary,
        nullable=False,
        comment="The exact CollectionJobReq; both aggregate shares are bound to it.",
    ),
    Column("location", Text, comment="Where the Leader keeps the job; null until it answered."),
    *_state(CollectionState),
    _reason(),
    Column("result", Text, comment="The result with its error bars and what it promises, JSON."),
    Column("problem", Text, comment="Why it failed: a problem document, JSON."),
    _seconds("created_at", "Seconds; when the batch was asked for."),
    _seconds("ended_at", "Seconds; when it finished or failed.", nullable=True),
    _seconds("announced_at", "Seconds; when the webhook was told of its end.", nullable=True),
    Index(
        "uq_collections_pending_request",
        "task_id",
        "request",
        unique=True,
        **_only("state = 'pending'"),
    ),
    comment="Collector: every collection asked for, with what came of it.",
    sqlite_strict=True,
)
