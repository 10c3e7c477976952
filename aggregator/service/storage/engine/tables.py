"""The tables, each column with its meaning and unit (`docs/data-model.md` lists them).

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

from functools import partial
from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
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
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine
from typing_extensions import override

from aggregator.errors import ParameterError
from aggregator.service.storage.engine.states import (
    AggregationJobState,
    BatchState,
    CollectionJobState,
    CollectionState,
    LedgerState,
    ResourceState,
)

_UINT64_END = 2**64

GENERATIONS = 4
"""How many tables hold the bodies of reports."""


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

_BIGINT = BigInteger().with_variant(Integer, "sqlite")  # SQLite's INTEGER has 64 bits


def _only(rows: str) -> dict[str, Any]:
    """Return the options of a partial index, whose condition is SQL.

    `make_tables` says the same to PostgreSQL; saying so here would load that dialect for every
    command.
    """
    return {"sqlite_where": text(rows)}


def _column(
    kind: TypeEngine[Any],
    name: str,
    comment: str,
    *,
    nullable: bool = False,
    primary_key: bool = False,
    unique: bool | None = None,
) -> Column[Any]:
    return Column(
        name, kind, nullable=nullable, primary_key=primary_key, unique=unique, comment=comment
    )


_text, _integer = partial(_column, Text()), partial(_column, Integer())
_int64, _uint64 = partial(_column, _BIGINT), partial(_column, Uint64())
_seconds = _int64


def _bytes(name: str, comment: str, size: int | None = None, **options: bool) -> Column[Any]:
    return _column(LargeBinary(size), name, comment, **options)


def _key(comment: str = "Key within this database.") -> Column[int]:
    return _int64("id", comment, primary_key=True)


def _number(name: str, comment: str, kind: TypeEngine[Any] | None = None) -> Column[int]:
    """Return a primary key that the database does not choose."""
    return Column(name, kind or Integer(), primary_key=True, autoincrement=False, comment=comment)


def _task(*, primary_key: bool = False) -> Column[int]:
    """Return the column of the task; whoever inserts a row locks the task's row by `task_key`."""
    return Column(
        "task",
        _BIGINT,
        ForeignKey("tasks.id"),
        primary_key=primary_key,
        nullable=False,
        comment="The task, by its key in `tasks`.",
    )


def _ids(name: str, comment: str, *beside: Column[Any]) -> Table:
    """Return a table of the ids of reports, in the order of the days of their times.

    So what comes in touches few pages of a large table, and what is forgotten is a range of it. The
    task comes first, since that range is a task's. No batch is in the key: the leader chooses it.
    """
    return _table(
        name,
        _int64("task", "The task, by its key in `tasks`.", primary_key=True),
        _integer(
            "day",
            "Days since 1970; the day of the report's time, which nobody but the client that made "
            "the report can change.",
            primary_key=True,
        ),
        _bytes("report_id", "DAP ReportID, 16 bytes.", 16, primary_key=True),
        *beside,
        # PostgreSQL would look the task up for each row, which takes longer than storing the row.
        # There the lock on the task's row protects it alone.
        ForeignKeyConstraint(["task"], ["tasks.id"]).ddl_if(dialect="sqlite"),
        comment=comment,
        sqlite_with_rowid=False,
    )


def _domain() -> Column[int]:
    return _number("domain", "The domain, by its key in `permit_domains`.", _BIGINT)


def _of_domain() -> SchemaItem:
    """Return the foreign key of a domain's rows; on PostgreSQL the lock of `locks` protects it."""
    return ForeignKeyConstraint(["domain"], ["permit_domains.id"]).ddl_if(dialect="sqlite")


def _shard(*, primary_key: bool = True) -> Column[int]:
    return _integer(
        "shard",
        "Which of several rows that are added up, from 0.",
        primary_key=primary_key,
    )


def _least_budget() -> Column[int]:
    return _int64(
        "least_budget",
        "The least of their privacy budgets, in millionths of an epsilon; null where reports have "
        "none.",
        nullable=True,
    )


def _batch(*, selected_later: bool = False) -> tuple[Column[bytes], Column[bytes]]:
    until = (
        " Null until the Leader has selected the batch, and when a failed job has let it go."
        if selected_later
        else ""
    )
    first = f"Key of the batch's first bucket, as in `buckets`.{until}"
    last = f"Key of its last bucket.{until}"
    return (
        _bytes("first_bucket", first, nullable=selected_later),
        _bytes("last_bucket", last, nullable=selected_later),
    )


def _state(
    states: type[AggregationJobState | CollectionJobState | BatchState]
    | type[ResourceState | LedgerState | CollectionState],
) -> tuple[Column[str], CheckConstraint]:
    words = ", ".join(f"'{state}'" for state in states)
    column = _text("state", f"One of {words.replace(chr(39), '`')}.")
    return column, CheckConstraint(f"state IN ({words})", name="state")


def _lease() -> tuple[Column[bytes], Column[int], Column[int], Column[int]]:
    return (
        _bytes(
            "lease_token",
            "Random token of the driver that holds the job; null while nobody does.",
            16,
            nullable=True,
        ),
        _seconds(
            "lease_expires_at",
            "Seconds; until then nobody else may lease the job. Also a retry's earliest time.",
        ),
        _seconds(
            "lease_set_at",
            "Seconds; when that was set. If it is well in the future the clock was put back, and "
            "the job may be leased.",
        ),
        _integer("lease_attempts", "Leases taken since the job last made progress."),
    )


def _reason() -> Column[str]:
    return _text(
        "reason",
        "Why it waits, for an operator: the last thing that stood in its way.",
        nullable=True,
    )


def _table(name: str, *items: SchemaItem, **options: Any) -> Table:  # noqa: ANN401  SQLAlchemy's own
    return Table(name, metadata, *items, sqlite_strict=True, **options)


permit_domains = _table(
    "permit_domains",
    _key("Key within this database; other tables name the domain by it."),
    _bytes("domain", "What permits are good for, once; 32 bytes, as in tasks.", 32, unique=True),
    _int64(
        "first_window",
        "The number of the first window that still counts: the permits of those before it, given "
        "and spent, are deleted.",
    ),
    _seconds(
        "forgotten_at",
        "Seconds; when the last of its tasks was forgotten, and with it what was spent: no task "
        "can have the domain from then on.",
        nullable=True,
    ),
    comment="Both: the domains of tasks that count only reports with a permit.",
)

tasks = _table(
    "tasks",
    _key("Key within this database; other tables name the task by it."),
    _bytes("task_id", "Its 32-byte TaskID.", 32, unique=True),
    _text("role", "What we are in this task: `leader`, `helper`."),
    _text("definition", "The public file of the task alone."),
    _integer(
        "verify_key_id",
        "Id of the task's one verification key, 0 to 255. The key of a task never changes, "
        "so no report can be verified under a second one.",
    ),
    _bytes("verify_key", "Ciphertext of the VDAF verification key, 32 bytes."),
    _bytes(
        "peer_token",
        "Leader: ciphertext of the bearer token that we show to the Helper.",
        nullable=True,
    ),
    _seconds("created_at", "Seconds; when the task was stored."),
    _bytes(
        "addition",
        "Random, 16 bytes, the same for all tasks that were stored together, as those of one file.",
        16,
    ),
    _seconds(
        "ended_at", "Seconds; no upload is accepted from then on. Null while open.", nullable=True
    ),
    _seconds(
        "forgotten_at",
        "Seconds; from then on it is no longer served, its secrets are empty, and its rows are "
        "deleted, except those of `ledger`.",
        nullable=True,
    ),
    _seconds("emptied_at", "Seconds; when the last of those rows was deleted.", nullable=True),
    _integer(
        "retention_seconds",
        "How many seconds ended jobs and the like are kept. Null for the service's setting of that "
        "name.",
        nullable=True,
    ),
    _integer(
        "largest_job",
        "Leader: the most bytes of an aggregation request that this task's Helper is sent, since "
        "it refused one for its size: half of that, and slowly more while it takes them. Null "
        "while it has refused none.",
        nullable=True,
    ),
    Column(
        "permit_domain",
        _BIGINT,
        ForeignKey("permit_domains.id"),
        comment="The domain of the permits that its reports need, by its key in `permit_domains`. "
        "Null if they need none.",
    ),
    _text(
        "collector_identity",
        "Who collects it, as a task of attribution says, by which tasks and open collections are "
        "counted. Null for another task.",
        nullable=True,
    ),
)

caller_tokens = _table(
    "caller_tokens",
    _task(primary_key=True),
    _bytes("token_hash", "SHA-256 of the token.", 32, primary_key=True),
    _seconds("created_at", "Seconds; when the token was made or came with the task."),
    _seconds("expires_at", "Seconds; refused from then on. Null without an end.", nullable=True),
    comment="Both: the bearer tokens that the caller of our protected resources may show, which is "
    "the Leader at the Helper and the Collector at the Leader. Rows stay, so that ended tokens are "
    "listed too.",
)

answer_counts = _table(
    "answer_counts",
    _task(primary_key=True),
    _seconds("asked_at", "Seconds; when its collector last asked, give or take an hour."),
    _seconds(
        "counted_at",
        "Seconds; when its reports were counted, with those of all other rows. Null until then.",
        nullable=True,
    ),
    _bytes(
        "counts",
        "For each bucket that was not collected its key, 8 bytes, and how many reports it had, 8 "
        "bytes, most significant first.",
    ),
    comment="Leader: the hourly count of answers that collectors are told, so that asking more "
    "often tells nothing more.",
)

hpke_keys = _table(
    "hpke_keys",
    _number(
        "config_id", "HpkeConfigId, 0 to 255; drawn at random, and none is used twice at a time."
    ),
    _bytes("config", "The encoded HpkeConfig."),
    _bytes("private_key", "Ciphertext of the private key."),
    _seconds("created_at", "Seconds; when the key pair was stored."),
    _seconds(
        "retired_at",
        "Seconds; from when on the key is no longer advertised. It still opens reports; the row "
        "leaves when none can need it any more.",
        nullable=True,
    ),
)

report_ids = _ids(
    "report_ids",
    "Leader: ids of uploaded reports. Being there is the duplicate check, so rows are narrow and "
    "outlive the bodies, until a report of their age is refused.",
)

rejected_reports = _table(
    "rejected_reports",
    _task(primary_key=True),
    _bytes("report_id", "DAP ReportID, 16 bytes.", 16, primary_key=True),
    _integer("day", "Days since 1970; when the report was rejected or given up."),
    _bytes(
        "sha256",
        "SHA-256 of the encoded Report if an operator gave it up before any request to the Helper "
        "had it: the same bytes are accepted again. Otherwise null.",
        32,
        nullable=True,
    ),
    Index(None, "task", "day"),
    comment="Leader: reports that were stored and left without being counted, so that a client "
    "that sends one again is told so. Rows leave with the ids in `report_ids`.",
    sqlite_with_rowid=False,
)

report_groups = _table(
    "report_groups",
    _key("Key; its order is the order of arrival, and of the groups of a job."),
    _task(),
    _bytes(
        "bucket", "The bucket its reports fall in; empty until its job decides that, if it does."
    ),
    _seconds("received_at", "Seconds; when its reports were stored."),
    _int64("job", "The aggregation job that claimed it; null while unclaimed.", nullable=True),
    _seconds(
        "waits_until",
        "Seconds; no job claims it before, for an aggregator found its reports too early. Null for "
        "at once.",
        nullable=True,
    ),
    _integer("size", "How many reports its body has, of which some may be of no use any more."),
    _integer("width", "How many bytes each of them has."),
    _bytes(
        "live",
        "Which of them are to be aggregated, a bit each, the first being the lowest bit of the "
        "first byte. Null if all are.",
        nullable=True,
    ),
    _integer("reports", "How many those are; a group without any is deleted."),
    _integer("generation", "In which table its body lies, 0 for `report_bodies_0`."),
    _seconds(
        "asked_at",
        "Seconds; when its reports came back from a request to the Helper, if they did: the Helper "
        "may have seen them.",
        nullable=True,
    ),
    _seconds(
        "unreadable_since",
        "Seconds; when its body was first found missing, or not to be what was stored. Null once "
        "it is read, or an operator has given it up.",
        nullable=True,
    ),
    # Serves claiming (job null, first bucket first), a job's groups, and counting a batch's.
    Index(None, "task", "job", "bucket"),
    # With the task, because the index above begins with it: otherwise deleting a job would look at
    # all groups.
    ForeignKeyConstraint(["job", "task"], ["aggregation_jobs.id", "aggregation_jobs.task"]),
    Index(None, "generation"),
    Index(None, "unreadable_since", **_only("unreadable_since IS NOT NULL")),
    comment="Leader: reports that are not aggregated yet, those together that one transaction has "
    "stored for one bucket. What is rejected or put into another group leaves `live`; a row leaves "
    "with its job.",
    sqlite_autoincrement=True,  # a body outlives its group's row, so a key must never be reused
)

settings_versions = _table(
    "settings_versions",
    _number("id", "1: there is one row, from the beginning."),
    _int64("version", "Drawn anew with every change of a task or of an HPKE key."),
    comment="Tells a process whether what it remembers of tasks and keys still holds.",
)

release_journals = _table(
    "release_journals",
    _number(
        "id",
        "At most one row: a random number, by which the journal knows its store.",
    ),
    _seconds("made_at", "Seconds; when the store was first opened with its journal of releases."),
    comment="Both: that there is a journal of releases, without which the store does not open.",
)

report_generations = _table(
    "report_generations",
    _number("generation", "As in `report_groups`."),
    _int64(
        "turn",
        "How often the current generation had changed when this one last became it. Bodies are "
        "added to the current one, which has the largest turn.",
    ),
    _seconds("begun_at", "Seconds; when it became the current one."),
    _int64("after_group", "About the greatest key in `report_groups` at that time."),
    _seconds(
        "unused_since",
        "Seconds; when it was found that no row of `report_groups` names it any more; otherwise "
        "null.",
        nullable=True,
    ),
    comment="Leader: the tables of bodies, each one row from the beginning.",
)

report_bodies = tuple(
    _table(
        f"report_bodies_{number}",
        _number(
            "report_group",
            "Its key in `report_groups`. 0, which no group has, for the name of the place in which "
            "the objects lie, if there are any.",
            _BIGINT,
        ),
        _bytes(
            "body",
            "The encoded Reports as they came, one after another, each beginning with its "
            "ReportID: both input shares are still HPKE ciphertext. If an object holds them, the "
            "ReportID and the SHA-256 of each.",
        ),
        _bytes(
            "object_name",
            "The name of the object that holds its reports, 16 bytes; null if `body` does. Empty "
            "if an operator has given them up while they were in a request to the Helper.",
            16,
            nullable=True,
        ),
        comment="Leader: bodies of groups. Rows without one in `report_groups` are of no use; all "
        "rows leave together.",
    )
    for number in range(GENERATIONS)
)
"""By generation."""

waiting_reports = _table(
    "waiting_reports",
    _task(primary_key=True),
    _bytes("bucket", "The bucket, as in `report_groups`.", primary_key=True),
    _shard(),
    _int64(
        "reports",
        "How many reports came to `report_groups`, minus those that left. Over all shards of a "
        "bucket, that is how many it has; one shard alone may be below 0.",
    ),
    comment="Leader: how many reports of each bucket are stored and not aggregated yet.",
    sqlite_with_rowid=False,
)

report_counters = _table(
    "report_counters",
    _task(primary_key=True),
    _text("stage", "`upload` or `aggregation`.", primary_key=True),
    _text("reason", "`stored`, `aggregated`, or why not.", primary_key=True),
    _shard(),
    _int64("reports", "How many reports."),
)

aggregation_jobs = _table(
    "aggregation_jobs",
    _key(),
    _task(),
    _bytes("job_id", "Our own random name of the job, 16 bytes, for logs.", 16, unique=True),
    *_state(AggregationJobState),
    _bytes(
        "bucket",
        "The bucket of all its reports, if the Leader selects batches; otherwise null.",
        nullable=True,
    ),
    _bytes(
        "request",
        "The exact AggregationJobInitReq, stored before it is sent and sent again on every "
        "retry; null before `sent` and after the end.",
        nullable=True,
    ),
    _bytes(
        "request_sha256",
        "SHA-256 of `request`, by which the Helper knows the job too; kept at the end.",
        32,
        nullable=True,
    ),
    _text(
        "helper_location",
        "Where the Helper put the job (its Location header), to poll or delete it.",
        nullable=True,
    ),
    _integer("failures", "Refusals and unusable answers to `request` so far."),
    _integer(
        "unanswered",
        "How often `request` was sent and neither refused nor turned away before it "
        "arrived: if 0, the Helper has surely not processed it.",
    ),
    _reason(),
    *_lease(),
    _seconds("created_at", "Seconds; when the reports were claimed."),
    _seconds("ended_at", "Seconds; when it finished or was abandoned.", nullable=True),
    Index(None, "state", "lease_expires_at", "task"),
    # For the foreign key of `report_groups`. In this order no query takes it for an index by task.
    UniqueConstraint("id", "task"),
    # Serves filling batches that the Leader selects.
    Index(None, "task", "bucket", **_only("bucket IS NOT NULL")),
    Index(None, "task", "ended_at", **_only("ended_at IS NOT NULL")),
    comment="Leader: aggregation jobs.",
)

aggregated_reports = _ids(
    "aggregated_reports",
    "Helper: ids of reports whose out shares are in a bucket, written in the bucket's own "
    "transaction. Being there is the replay check, until a report of their age is refused.",
)

bound_reports = _ids(
    "bound_reports",
    "Both: to which batch the ids of reports are bound where collectors select batches, beside "
    "`report_ids` or `aggregated_reports`. If the batch is dropped, the same bytes may be bound to "
    "another. Rows leave with those ids.",
    _bytes("bucket", "The batch, as in `buckets`."),
    _bytes(
        "sha256",
        "Leader: SHA-256 of the encoded Report; Helper: of what its aggregation job said of it.",
        32,
    ),
)

permits = _table(
    "permits",
    _domain(),
    _bytes("entry", "A hash of the id of the report that it lets count.", 16, primary_key=True),
    _int64(
        "window",
        "The number of the window in which it counts; 0 if the task has none. Once another permit "
        "has replaced it, -1 less that number.",
    ),
    _of_domain(),
    comment="Both: the permits that were given out. Whoever reads them can use none.",
    sqlite_with_rowid=False,
)

spent_permits = _table(
    "spent_permits",
    _domain(),
    _int64("window", "The number of the window that the report is in.", primary_key=True),
    _bytes("report_id", "The report that it let count: DAP ReportID.", 16, primary_key=True),
    _bytes(
        "mark",
        "Four bytes of a hash that tell the report that comes again from another one with this "
        "permit: Leader: of its task and its public part; Helper: of its task and its id.",
        4,
    ),
    _of_domain(),
    comment="Both: the permits that were used, instead of ids in `report_ids` and "
    "`aggregated_reports`, and written as these are. Their age never matters: a permit could come "
    "again with a later time of the same window.",
    sqlite_with_rowid=False,
)

id_memories = _table(
    "id_memories",
    _task(primary_key=True),
    _text("ids", "The table of ids: `report_ids` or `aggregated_reports`.", primary_key=True),
    _integer("from_day", "Days since 1970; ids of earlier days may have been deleted."),
    _integer("looked_on", "Days since 1970; when all old ids of the task were last deleted."),
    comment="Both: from when on a task's ids are remembered. Writers of ids check this afterwards.",
)

bucket_keys = _table(
    "bucket_keys",
    _task(primary_key=True),
    _bytes("bucket", "As in `buckets`.", primary_key=True),
    _shard(),
    _int64(
        "slot",
        "Where the key file, or `bucket_key_slots`, has the ciphertext of the random key "
        "under which the share in this row is encrypted.",
        unique=True,
    ),
    comment="Both: one random key per share, in a file beside an SQLite database. Overwriting it "
    "there destroys the share, and every copy of it that may be left in free pages or in "
    "the log.",
    sqlite_with_rowid=False,
)

bucket_key_slots = _table(
    "bucket_key_slots",
    _int64("slot", "As in `bucket_keys`; never used again.", primary_key=True),
    _bytes("key", "Ciphertext of a share's random key."),
    comment="Both, on a PostgreSQL server only: the keys that otherwise lie in the key file.",
)

bucket_shares = _table(
    "bucket_shares",
    _task(primary_key=True),
    _bytes("bucket", "As in `buckets`.", primary_key=True),
    _shard(),
    _bytes("share", "The un-noised aggregate share, ciphertext under its own key."),
    comment="Both: what the reports of each bucket add up to, over all shards. Once its batch is "
    "released, a row is without a key, and deleted soon afterwards.",
)

buckets = _table(
    "buckets",
    _task(primary_key=True),
    _bytes(
        "bucket",
        "The bucket's key, which the batch mode makes: in time-interval mode its unit of "
        "time, 8 bytes, most significant first; in leader-selected mode its batch id, 32 bytes.",
        primary_key=True,
    ),
    _shard(),
    _int64("report_count", "Reports in the share."),
    _bytes("checksum", "XOR of SHA-256 of their report ids.", 32),
    _uint64("first_time", "The earliest of their times; null without a report.", nullable=True),
    _uint64("last_time", "The latest of their times; null without a report.", nullable=True),
    _least_budget(),
    comment="Both: batch buckets, without their shares: rows are narrow, so that a batch of many "
    "buckets is counted at once.",
    sqlite_with_rowid=False,
)

job_shares = _table(
    "job_shares",
    _key(),
    _task(),
    _bytes("bucket", "As in `buckets`."),
    _shard(primary_key=False),
    _bytes("job", "SHA-256 of the AggregationJobInitReq, the same for both aggregators.", 32),
    _bytes(
        "share", "What the job added to this shard of the bucket, ciphertext under the shard's key."
    ),
    _int64("report_count", "Reports of the job in the bucket."),
    _bytes("checksum", "XOR of SHA-256 of their report ids.", 32),
    _uint64("first_time", "The earliest of their times."),
    _uint64("last_time", "The latest of their times."),
    _least_budget(),
    _seconds("counted_at", "Seconds; when they were added."),
    Index(None, "task", "bucket"),
    Index(None, "task", "job"),
    comment="Both: what each aggregation job added to a bucket, until the bucket is released. So "
    "aggregators that disagree on a batch can name the jobs that differ, and leave them out.",
)

closed_batches = _table(
    "closed_batches",
    _key(),
    _task(),
    *_batch(),
    *_state(BatchState),
    _seconds("changed_at", "Seconds; when the state was entered."),
    _integer(
        "leftovers",
        "1 while rows of `bucket_shares` of the collected batch are still to be deleted.",
    ),
    _integer(
        "dropped",
        "1 if the batch was closed before we drew noise for it or sent our share, so that other "
        "batches may take its reports (`bound_reports`); otherwise 0.",
    ),
    Index(None, "task", "first_bucket", unique=True),
    Index("ix_closed_batches_leftovers", "id", **_only("leftovers = 1")),
    comment="Both: batches that take no more reports, as ranges of buckets in the order of their "
    "keys; those of one task never overlap. This serves every batch mode: an interval of 2^63 "
    "units of time is one row, and a batch that has a name is a range of one key.",
)

collection_jobs = _table(
    "collection_jobs",
    _key(),
    _task(),
    _bytes(
        "job_id",
        "Id in the resource's URL, 16 bytes: random, or the Collector's choice.",
        16,
        unique=True,
    ),
    _bytes(
        "body_sha256",
        "SHA-256 of `request`, after the `job_id` if the Collector chose it, or reports came below "
        "it: then the same request makes another job.",
        32,
    ),
    _bytes("request", "The exact CollectionJobReq."),
    *_batch(selected_later=True),
    *_state(CollectionJobState),
    _bytes(
        "aggregate_share_request",
        "The exact AggregateShareReq, stored on freezing, sent on every retry.",
        nullable=True,
    ),
    _text(
        "helper_location",
        "Where the Helper put its share (its Location header), to poll it.",
        nullable=True,
    ),
    _bytes("leader_share", "Our noised share, sealed: an encoded HpkeCiphertext.", nullable=True),
    _bytes("helper_share", "The Helper's share, the same.", nullable=True),
    _int64("report_count", "Reports in the batch, once finished.", nullable=True),
    _uint64("interval_start", "First unit of the smallest interval of the reports.", nullable=True),
    _uint64("interval_end", "The unit after its last one.", nullable=True),
    _text("problem", "The problem document of a failed job, JSON.", nullable=True),
    _seconds(
        "uploaded_at",
        "Seconds; when reports last came below it, 0 before the first. Null if none can, as the "
        "Collector does not select the batch.",
        nullable=True,
    ),
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
        **_only("state IN ('open', 'start', 'frozen', 'finished')"),
    ),
    Index(None, "state", "lease_expires_at", "task"),
    Index(None, "task", "first_bucket"),
    Index(None, "task", "state", "first_bucket", "report_count"),
    comment="Leader: collection jobs and their results.",
)

answered_jobs = _table(
    "answered_jobs",
    _key(),
    _task(),
    _bytes("body_sha256", "SHA-256 of the request body.", 32),
    _bytes(
        "job_id",
        "Id in the resource's URL, 16 bytes: random, or the Leader's choice.",
        16,
        unique=True,
    ),
    *_state(ResourceState),
    _bytes("response", "The exact AggregationJobResp; null once deleted.", nullable=True),
    _seconds("created_at", "Seconds; when the request was answered."),
    Index(None, "task", "created_at"),
    Index(
        "uq_answered_jobs_live_request",
        "task",
        "body_sha256",
        unique=True,
        **_only("state = 'live'"),
    ),
    comment="Helper: aggregation jobs, answered, so that the same request gets the same bytes.",
)

deferred_jobs = _table(
    "deferred_jobs",
    _key(),
    _task(),
    _bytes(
        "job_id",
        "Id in the resource's URL, 16 bytes: random, or the Leader's choice. The answer keeps it.",
        16,
        unique=True,
    ),
    _bytes("body_sha256", "SHA-256 of `request`.", 32),
    _integer("size", "How many bytes `request` has."),
    _reason(),
    *_lease(),
    _seconds("created_at", "Seconds; when the request came."),
    _bytes("request", "The exact AggregationJobInitReq; its input shares are HPKE ciphertext."),
    UniqueConstraint("task", "body_sha256"),
    comment="Helper: aggregation jobs that it will answer later. A row leaves in the transaction "
    "that stores the answer in `answered_jobs`.",
)

aggregate_shares = _table(
    "aggregate_shares",
    _key(),
    _task(),
    _bytes(
        "share_id",
        "Id in the resource's URL, 16 bytes: random, or the Leader's choice.",
        16,
        unique=True,
    ),
    _bytes("selector", "The encoded BatchSelector."),
    _bytes("body_sha256", "SHA-256 of the request body.", 32),
    *_state(ResourceState),
    _bytes("response", "The exact AggregateShare; null once deleted.", nullable=True),
    _int64("report_count", "Reports in the batch."),
    _seconds("created_at", "Seconds; when the share was released."),
    UniqueConstraint("task", "selector"),
    comment="Helper: released aggregate shares. A batch is released once, so a row is never "
    "replaced; after a deletion the same request is refused.",
)

ledger = _table(
    "ledger",
    _key(),
    _task(),
    *_state(LedgerState),
    *_batch(),
    _text("mechanism", "Its name; `None` adds no noise."),
    _text("epsilon", "Exact rational, as text; null where there is none.", nullable=True),
    _text("delta", "Exact rational, as text; null where nothing is promised.", nullable=True),
    _text("rho", "Exact rational, as text; null where nothing is promised.", nullable=True),
    _text("population", "The population that the task declares; costs add up over its tasks."),
    _seconds("created_at", "Seconds; when the cost was reserved or charged."),
    _seconds("charged_at", "Seconds; when it was released. Null while reserved.", nullable=True),
    _bytes(
        "share_sha256",
        "SHA-256 of our sealed share, by which the journal of releases knows it too. Null "
        "without one: reserved, presumed, or charged for what the other aggregator may have sent.",
        32,
        nullable=True,
    ),
    Index(None, "task", "first_bucket", "last_bucket", unique=True),
    Index(None, "population"),
    comment="Both: privacy spent, one row per release, written in the release's own transaction.",
)

populations = _table(
    "populations",
    _text("name", "As tasks declare it.", primary_key=True),
    _text("epsilon", "Limit on the sum of epsilons, exact; null for none.", nullable=True),
    _text("rho", "Limit on the sum of rhos, exact; null for none.", nullable=True),
    _text("delta", "Limit on the sum of deltas, exact."),
    _integer("is_closed", "1 if no task is added after the first release, otherwise 0."),
    comment="Both: what the operator allows all tasks of a population together.",
)

collector_tasks = _table(
    "collector_tasks",
    _bytes("task_id", "DAP TaskID, 32 bytes.", 32, primary_key=True),
    _text("definition", "The public file of the task alone."),
    _bytes("token", "Ciphertext of the bearer token that we show to the Leader."),
    _seconds("created_at", "Seconds; when the task was stored."),
    comment="Collector: the tasks it collects.",
)

collections = _table(
    "collections",
    _key(),
    _bytes("collection_id", "Our own random name of the collection, 16 bytes.", 16, unique=True),
    Column(
        "task_id",
        LargeBinary(32),
        ForeignKey("collector_tasks.task_id"),
        nullable=False,
        comment="DAP TaskID, 32 bytes.",
    ),
    _bytes("request", "The exact CollectionJobReq; both aggregate shares are bound to it."),
    _text(
        "location",
        "Where the Leader keeps the job; null until it answered, and once it was told that the "
        "collection is abandoned.",
        nullable=True,
    ),
    *_state(CollectionState),
    _reason(),
    _text("result", "The result with its error bars and what it promises, JSON.", nullable=True),
    _text("problem", "Why it failed or was abandoned: a problem document, JSON.", nullable=True),
    _seconds("created_at", "Seconds; when the batch was asked for."),
    _seconds("ended_at", "Seconds; when it finished, failed or was abandoned.", nullable=True),
    _seconds("announced_at", "Seconds; when the webhook was told of its end.", nullable=True),
    Index(
        "uq_collections_pending_request",
        "task_id",
        "request",
        unique=True,
        **_only("state = 'pending'"),
    ),
    Index(None, "state", "task_id"),
    Index(None, "request"),  # tasks may share a request, as they ask for the same windows
    Index("ix_collections_unannounced", "task_id", **_only("announced_at IS NULL")),
    comment="Collector: every collection asked for, with what came of it.",
)

_CIPHERTEXT = (
    *(each.c.body for each in report_bodies),
    *(aggregation_jobs.c.request, answered_jobs.c.response, deferred_jobs.c.request),
    bucket_shares.c.share,
)
"""Long columns of ciphertext, which PostgreSQL would try in vain to compress."""


def make_tables(connection: Connection) -> None:
    """Make all tables, with the rows that are there from the beginning."""
    is_postgresql = connection.dialect.name == "postgresql"
    if is_postgresql:
        for index in (index for table in metadata.tables.values() for index in table.indexes):
            where = index.dialect_options["sqlite"]["where"]
            index.dialect_options["postgresql"]["where"] = where
    metadata.create_all(connection)
    connection.execute(settings_versions.insert().values(id=1, version=0))
    connection.execute(
        report_generations.insert(),
        [
            {"generation": number, "turn": -number, "begun_at": 0, "after_group": 0}
            for number in range(GENERATIONS)
        ],
    )
    if is_postgresql:
        for column in _CIPHERTEXT:
            connection.exec_driver_sql(
                f"ALTER TABLE {column.table.name} ALTER COLUMN {column.name} SET STORAGE EXTERNAL"
            )
        for table in report_bodies:
            # Vacuuming rows that are soon truncated is wasted work, and would block truncating.
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} "
                "SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)"
            )
