"""The first schema.

A revision never changes once it is released: it spells every table out and imports nothing of ours.
It is numbered 0009 because 0001 to 0008 were replaced before anything was released; a store that
they made is refused by its version.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None
branch_labels = None
depends_on = None

BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
UINT64 = sa.LargeBinary(8)
GENERATIONS = 4


def only(rows: str) -> dict[str, Any]:
    """Return the options of an index of only the rows that fulfil a condition."""
    return {"sqlite_where": sa.text(rows), "postgresql_where": sa.text(rows)}


def upgrade() -> None:  # noqa: PLR0915  a statement for each table
    """Make every table."""
    op.create_table(
        "collector_tasks",
        sa.Column("task_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("token", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="pk_collector_tasks"),
        sqlite_strict=True,
    )
    op.create_table(
        "hpke_keys",
        sa.Column("config_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("config", sa.LargeBinary(), nullable=False),
        sa.Column("private_key", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("retired_at", BIGINT, nullable=True),
        sa.PrimaryKeyConstraint("config_id", name="pk_hpke_keys"),
        sqlite_strict=True,
    )
    op.create_table(
        "tasks",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("definition", sa.Text(), nullable=False),
        sa.Column("verify_key_id", sa.Integer(), nullable=False),
        sa.Column("verify_key", sa.LargeBinary(), nullable=False),
        sa.Column("peer_token", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("ended_at", BIGINT, nullable=True),
        sa.Column("forgotten_at", BIGINT, nullable=True),
        sa.Column("emptied_at", BIGINT, nullable=True),
        sa.Column("retention_seconds", sa.Integer(), nullable=True),
        sa.Column("largest_job", sa.Integer(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tasks"),
        sa.UniqueConstraint("task_id", name="uq_tasks_task_id"),
        sqlite_strict=True,
    )
    op.create_table(
        "aggregate_shares",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("share_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("selector", sa.LargeBinary(), nullable=False),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=True),
        sa.Column("report_count", BIGINT, nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.CheckConstraint(
            "state IN ('live', 'deleted')", name="ck_aggregate_shares_ck_aggregate_shares_state"
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_aggregate_shares_task"),
        sa.PrimaryKeyConstraint("id", name="pk_aggregate_shares"),
        sa.UniqueConstraint("share_id", name="uq_aggregate_shares_share_id"),
        sa.UniqueConstraint("task", "selector", name="uq_aggregate_shares_task_selector"),
        sqlite_strict=True,
    )
    op.create_table(
        "caller_tokens",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("token_hash", sa.LargeBinary(length=32), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("expires_at", BIGINT, nullable=True),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_caller_tokens_task"),
        sa.PrimaryKeyConstraint("task", "token_hash", name="pk_caller_tokens"),
        sqlite_strict=True,
    )
    op.create_table(
        "aggregated_reports",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("report_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_aggregated_reports_task"),
        sa.PrimaryKeyConstraint("task", "report_id", name="pk_aggregated_reports"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "aggregation_jobs",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("job_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=True),
        sa.Column("request", sa.LargeBinary(), nullable=True),
        sa.Column("request_sha256", sa.LargeBinary(length=32), nullable=True),
        sa.Column("helper_location", sa.Text(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("unanswered", sa.Integer(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("lease_token", sa.LargeBinary(length=16), nullable=True),
        sa.Column("lease_expires_at", BIGINT, nullable=False),
        sa.Column("lease_set_at", BIGINT, nullable=False),
        sa.Column("lease_attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("ended_at", BIGINT, nullable=True),
        sa.CheckConstraint(
            "state IN ('created', 'sent', 'held', 'finished', 'abandoned')",
            name="ck_aggregation_jobs_ck_aggregation_jobs_state",
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_aggregation_jobs_task"),
        sa.PrimaryKeyConstraint("id", name="pk_aggregation_jobs"),
        sa.UniqueConstraint("job_id", name="uq_aggregation_jobs_job_id"),
        sa.UniqueConstraint("id", "task", name="uq_aggregation_jobs_id_task"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_aggregation_jobs_state_lease_expires_at_task",
        "aggregation_jobs",
        ["state", "lease_expires_at", "task"],
    )
    op.create_index(
        "ix_aggregation_jobs_task_bucket",
        "aggregation_jobs",
        ["task", "bucket"],
        **only("bucket IS NOT NULL"),
    )
    op.create_index(
        "ix_aggregation_jobs_task_ended_at",
        "aggregation_jobs",
        ["task", "ended_at"],
        **only("ended_at IS NOT NULL"),
    )
    op.create_table(
        "answered_jobs",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("job_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("response", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.CheckConstraint(
            "state IN ('live', 'deleted')", name="ck_answered_jobs_ck_answered_jobs_state"
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_answered_jobs_task"),
        sa.PrimaryKeyConstraint("id", name="pk_answered_jobs"),
        sa.UniqueConstraint("job_id", name="uq_answered_jobs_job_id"),
        sqlite_strict=True,
    )
    op.create_index("ix_answered_jobs_task_created_at", "answered_jobs", ["task", "created_at"])
    op.create_index(
        "uq_answered_jobs_live_request",
        "answered_jobs",
        ["task", "body_sha256"],
        unique=True,
        **only("state = 'live'"),
    )
    op.create_table(
        "bucket_keys",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("slot", BIGINT, nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_bucket_keys_task"),
        sa.PrimaryKeyConstraint("task", "bucket", "shard", name="pk_bucket_keys"),
        sa.UniqueConstraint("slot", name="uq_bucket_keys_slot"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bucket_key_slots",
        sa.Column("slot", BIGINT, nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("slot", name="pk_bucket_key_slots"),
        sqlite_strict=True,
    )
    op.create_table(
        "bucket_shares",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("share", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_bucket_shares_task"),
        sa.PrimaryKeyConstraint("task", "bucket", "shard", name="pk_bucket_shares"),
        sqlite_strict=True,
    )
    op.create_table(
        "buckets",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("report_count", BIGINT, nullable=False),
        sa.Column("checksum", sa.LargeBinary(length=32), nullable=False),
        sa.Column("first_time", UINT64, nullable=True),
        sa.Column("last_time", UINT64, nullable=True),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_buckets_task"),
        sa.PrimaryKeyConstraint("task", "bucket", "shard", name="pk_buckets"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "closed_batches",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("first_bucket", sa.LargeBinary(), nullable=False),
        sa.Column("last_bucket", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("changed_at", BIGINT, nullable=False),
        sa.Column("leftovers", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "state IN ('frozen', 'collected')", name="ck_closed_batches_ck_closed_batches_state"
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_closed_batches_task"),
        sa.PrimaryKeyConstraint("id", name="pk_closed_batches"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_closed_batches_task_first_bucket",
        "closed_batches",
        ["task", "first_bucket"],
        unique=True,
    )
    op.create_index(
        "ix_closed_batches_leftovers",
        "closed_batches",
        ["id"],
        **only("leftovers = 1"),
    )
    op.create_table(
        "collection_jobs",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("job_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("body_sha256", sa.LargeBinary(length=32), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("first_bucket", sa.LargeBinary(), nullable=True),
        sa.Column("last_bucket", sa.LargeBinary(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("aggregate_share_request", sa.LargeBinary(), nullable=True),
        sa.Column("helper_location", sa.Text(), nullable=True),
        sa.Column("leader_share", sa.LargeBinary(), nullable=True),
        sa.Column("helper_share", sa.LargeBinary(), nullable=True),
        sa.Column("report_count", BIGINT, nullable=True),
        sa.Column("interval_start", UINT64, nullable=True),
        sa.Column("interval_end", UINT64, nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("refused_since", BIGINT, nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("lease_token", sa.LargeBinary(length=16), nullable=True),
        sa.Column("lease_expires_at", BIGINT, nullable=False),
        sa.Column("lease_set_at", BIGINT, nullable=False),
        sa.Column("lease_attempts", sa.Integer(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("ended_at", BIGINT, nullable=True),
        sa.CheckConstraint(
            "state IN ('start', 'frozen', 'finished', 'failed', 'deleted')",
            name="ck_collection_jobs_ck_collection_jobs_state",
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_collection_jobs_task"),
        sa.PrimaryKeyConstraint("id", name="pk_collection_jobs"),
        sa.UniqueConstraint("job_id", name="uq_collection_jobs_job_id"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_collection_jobs_state_lease_expires_at_task",
        "collection_jobs",
        ["state", "lease_expires_at", "task"],
    )
    op.create_index(
        "ix_collection_jobs_task_first_bucket", "collection_jobs", ["task", "first_bucket"]
    )
    op.create_index(
        "ix_collection_jobs_task_state_first_bucket_report_count",
        "collection_jobs",
        ["task", "state", "first_bucket", "report_count"],
    )
    op.create_index(
        "uq_collection_jobs_live_request",
        "collection_jobs",
        ["task", "body_sha256"],
        unique=True,
        **only("state IN ('start', 'frozen', 'finished')"),
    )
    op.create_table(
        "collections",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("collection_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("task_id", sa.LargeBinary(length=32), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("location", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("result", sa.Text(), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("ended_at", BIGINT, nullable=True),
        sa.Column("announced_at", BIGINT, nullable=True),
        sa.CheckConstraint(
            "state IN ('pending', 'finished', 'failed', 'abandoned')",
            name="ck_collections_ck_collections_state",
        ),
        sa.ForeignKeyConstraint(
            ["task_id"], ["collector_tasks.task_id"], name="fk_collections_task_id"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_collections"),
        sa.UniqueConstraint("collection_id", name="uq_collections_collection_id"),
        sqlite_strict=True,
    )
    op.create_index("ix_collections_state_task_id", "collections", ["state", "task_id"])
    op.create_index("ix_collections_request", "collections", ["request"])
    op.create_index(
        "ix_collections_unannounced", "collections", ["task_id"], **only("announced_at IS NULL")
    )
    op.create_index(
        "uq_collections_pending_request",
        "collections",
        ["task_id", "request"],
        unique=True,
        **only("state = 'pending'"),
    )
    op.create_table(
        "id_memories",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("ids", sa.Text(), nullable=False),
        sa.Column("from_day", sa.Integer(), nullable=False),
        sa.Column("looked_on", sa.Integer(), nullable=False),
        sa.Column("after_id", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_id_memories_task"),
        sa.PrimaryKeyConstraint("task", "ids", name="pk_id_memories"),
        sqlite_strict=True,
    )
    op.create_table(
        "job_shares",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("job", sa.LargeBinary(length=32), nullable=False),
        sa.Column("share", sa.LargeBinary(), nullable=False),
        sa.Column("report_count", BIGINT, nullable=False),
        sa.Column("checksum", sa.LargeBinary(length=32), nullable=False),
        sa.Column("first_time", UINT64, nullable=False),
        sa.Column("last_time", UINT64, nullable=False),
        sa.Column("counted_at", BIGINT, nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_job_shares_task"),
        sa.PrimaryKeyConstraint("id", name="pk_job_shares"),
        sqlite_strict=True,
    )
    op.create_index("ix_job_shares_task_bucket", "job_shares", ["task", "bucket"])
    op.create_index("ix_job_shares_task_job", "job_shares", ["task", "job"])
    op.create_table(
        "ledger",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("first_bucket", sa.LargeBinary(), nullable=False),
        sa.Column("last_bucket", sa.LargeBinary(), nullable=False),
        sa.Column("mechanism", sa.Text(), nullable=False),
        sa.Column("epsilon", sa.Text(), nullable=True),
        sa.Column("delta", sa.Text(), nullable=True),
        sa.Column("rho", sa.Text(), nullable=True),
        sa.Column("population", sa.Text(), nullable=False),
        sa.Column("created_at", BIGINT, nullable=False),
        sa.Column("charged_at", BIGINT, nullable=True),
        sa.Column("share_sha256", sa.LargeBinary(length=32), nullable=True),
        sa.CheckConstraint(
            "state IN ('reserved', 'charged', 'presumed')", name="ck_ledger_ck_ledger_state"
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_ledger_task"),
        sa.PrimaryKeyConstraint("id", name="pk_ledger"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_ledger_task_first_bucket_last_bucket",
        "ledger",
        ["task", "first_bucket", "last_bucket"],
        unique=True,
    )
    op.create_index("ix_ledger_population", "ledger", ["population"])
    op.create_table(
        "populations",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("epsilon", sa.Text(), nullable=True),
        sa.Column("rho", sa.Text(), nullable=True),
        sa.Column("delta", sa.Text(), nullable=False),
        sa.Column("is_closed", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_populations"),
        sqlite_strict=True,
    )
    op.create_table(
        "report_counters",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("reports", BIGINT, nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_report_counters_task"),
        sa.PrimaryKeyConstraint("task", "stage", "reason", "shard", name="pk_report_counters"),
        sqlite_strict=True,
    )
    op.create_table(
        "report_ids",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("report_id", sa.LargeBinary(length=16), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_report_ids_task"),
        sa.PrimaryKeyConstraint("task", "report_id", name="pk_report_ids"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "report_groups",
        sa.Column("id", BIGINT, nullable=False),
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("received_at", BIGINT, nullable=False),
        sa.Column("job", BIGINT, nullable=True),
        sa.Column("waits_until", BIGINT, nullable=True),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("width", sa.Integer(), nullable=False),
        sa.Column("live", sa.LargeBinary(), nullable=True),
        sa.Column("reports", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job", "task"],
            ["aggregation_jobs.id", "aggregation_jobs.task"],
            name="fk_report_groups_job_task",
        ),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_report_groups_task"),
        sa.PrimaryKeyConstraint("id", name="pk_report_groups"),
        sqlite_autoincrement=True,
        sqlite_strict=True,
    )
    op.create_index("ix_report_groups_task_job_bucket", "report_groups", ["task", "job", "bucket"])
    op.create_index("ix_report_groups_generation", "report_groups", ["generation"])
    for number in range(GENERATIONS):
        op.create_table(
            f"report_bodies_{number}",
            sa.Column("report_group", BIGINT, autoincrement=False, nullable=False),
            sa.Column("body", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("report_group", name=f"pk_report_bodies_{number}"),
            sqlite_strict=True,
        )
        # Autovacuum would work on rows that are soon truncated, and block that meanwhile.
        # Ciphertext does not compress, so trying would be wasted.
        if op.get_context().dialect.name == "postgresql":
            op.execute(
                f"ALTER TABLE report_bodies_{number} "
                "SET (autovacuum_enabled = false, toast.autovacuum_enabled = false)"
            )
            op.execute(f"ALTER TABLE report_bodies_{number} ALTER COLUMN body SET STORAGE EXTERNAL")
    versions = op.create_table(
        "settings_versions",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_settings_versions"),
        sqlite_strict=True,
    )
    op.bulk_insert(versions, [{"id": 1, "version": 0}])
    op.create_table(
        "release_journals",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("made_at", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_release_journals"),
        sqlite_strict=True,
    )
    generations = op.create_table(
        "report_generations",
        sa.Column("generation", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("turn", BIGINT, nullable=False),
        sa.Column("begun_at", BIGINT, nullable=False),
        sa.Column("after_group", BIGINT, nullable=False),
        sa.Column("unused_since", BIGINT, nullable=True),
        sa.PrimaryKeyConstraint("generation", name="pk_report_generations"),
        sqlite_strict=True,
    )
    op.bulk_insert(
        generations,
        [
            {"generation": number, "turn": -number, "begun_at": 0, "after_group": 0}
            for number in range(GENERATIONS)
        ],
    )
    op.create_table(
        "waiting_reports",
        sa.Column("task", BIGINT, nullable=False),
        sa.Column("bucket", sa.LargeBinary(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("reports", BIGINT, nullable=False),
        sa.ForeignKeyConstraint(["task"], ["tasks.id"], name="fk_waiting_reports_task"),
        sa.PrimaryKeyConstraint("task", "bucket", "shard", name="pk_waiting_reports"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drop every table, with all that is stored."""
    op.drop_table("waiting_reports")
    op.drop_table("report_generations")
    op.drop_table("release_journals")
    op.drop_table("settings_versions")
    for number in range(GENERATIONS):
        op.drop_table(f"report_bodies_{number}")
    op.drop_table("report_groups")
    op.drop_table("report_ids")
    op.drop_table("report_counters")
    op.drop_table("populations")
    op.drop_table("ledger")
    op.drop_table("job_shares")
    op.drop_table("id_memories")
    op.drop_table("collections")
    op.drop_table("collection_jobs")
    op.drop_table("closed_batches")
    op.drop_table("buckets")
    op.drop_table("bucket_shares")
    op.drop_table("bucket_key_slots")
    op.drop_table("bucket_keys")
    op.drop_table("answered_jobs")
    op.drop_table("aggregation_jobs")
    op.drop_table("aggregated_reports")
    op.drop_table("caller_tokens")
    op.drop_table("aggregate_shares")
    op.drop_table("tasks")
    op.drop_table("hpke_keys")
    op.drop_table("collector_tasks")
