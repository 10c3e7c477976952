"""Writes `docs/data-model.md` from the tables and the transitions, so that it cannot be wrong.

Run `make docs` after a change; a test compares.
"""

import sys
from itertools import groupby

from sqlalchemy import Table

from aggregator.service.storage.engine.states import MACHINES, Machine
from aggregator.service.storage.engine.tables import metadata

_INTRODUCTION = """\
# Data model

*Written by `python -m tests.support.data_model`; do not edit by hand.*

Each aggregator has a store of its own: one SQLite file or one PostgreSQL database. This page
lists what is in it. `aggregator/service/storage/engine/tables.py` says of every column what it
means and in which unit, and names the columns that hold ciphertext.

What the order of transactions promises, whenever a process is killed:

- **A stored report is never lost.** An upload that was answered is committed. Its body stays
  until its aggregation job ends, and it ends either in a bucket or in a counter with a reason. A
  batch is not frozen while one of its stored reports is not aggregated, and no report is stored
  for a batch that is asked for, frozen or collected.
- **A report is counted once.** At the Leader `report_ids` refuses a second upload, and only one
  job can claim a group of reports. At the Helper `aggregated_reports` is written in the
  transaction that adds to the bucket. In tasks with permits both write `spent_permits` instead.
- **A retry is the same request.** The Leader stores the exact bytes before it sends them, and the
  Helper stores its answer in the transaction that does the work.
- **A batch has one noised share per side.** Noise is drawn inside the transaction that stores the
  sealed share, charges the ledger and marks the batch collected. Nothing leaves the process
  before its commit.
- **Leases.** A driver moves a job only while the random token in the job's row is its own.

## What is about people

| what | where | until |
| --- | --- | --- |
| an uploaded report: its id, its time, and both input shares, which are HPKE ciphertext | \
`report_bodies_0` to `report_bodies_3`, `aggregation_jobs.request`, `deferred_jobs.request`; or an \
[object](operations/object-storage.md) | its job has ended, and some minutes more |
| the ids of reports | `report_ids`, `rejected_reports`, `aggregated_reports`, `bound_reports`, \
`answered_jobs.response` | \
a report of that age is refused; an answer as long as its job |
| permits that were given out, as hashes, and the ids of the reports that spent them | `permits`, \
`spent_permits` | the operator ends their window, or the last task with their domain is deleted |
| un-noised sums of one aggregator, encrypted under a key of their bucket | `bucket_shares`, \
`job_shares` | \
the batch is released, when their keys (`bucket_keys`) are destroyed |
| how many reports, and the earliest and latest of their times | `buckets` | as jobs, after the \
batch \
was collected |
| how many reports were stored, counted or rejected, and why | `report_counters` | the task is \
deleted |
| noised shares, sealed to the collector | `aggregate_shares`, `collection_jobs` | as jobs |
| results, at the collector | `collections` | the collector deletes them |

[Retention](operations/retention.md) says how long jobs stay, and how a task is deleted with all
of this.

## Which reports are the same

An id is kept under the day in which the unit of its report's time begins: `report_ids` and
`aggregated_reports` have the key (task, day, id) in every batch mode. What comes in touches only
the pages of a task's last days, however many ids there are, and forgetting deletes one range.

- **A replay has the same day.** The time is in the report's metadata, which both ciphertexts
  authenticate together with the task and the public share (DAP, "Upload Request"). If anybody who
  lacks the shares changes it, a leader or a proxy, neither aggregator opens the report
  (`hpke_decrypt_error`), and it counts nowhere. No client changes the time of a report that it has
  stored for sending: however late, it seals the same id, time and shares.
- **No batch is in the key.** In the mode `leader_selected` the leader chooses a report's batch. One
  that offers a report to two batches has it counted in one. In the mode `collector_selected`
  `bound_reports` says beside the id in which batch it is; if that is dropped, the same bytes may be
  in another one ([decision \
32](adr/0032-a-collection-of-attribution-is-a-batch-with-an-epsilon-of-its-own.md)).
- **One id with times of two days is two reports.** Only a client can make them, which seals the
  second one with shares that it knows. Both count, as if it had drawn two ids, which costs nothing
  either. It learns no more: each must be valid to count, and nobody tells a client what the
  aggregators tell each other. An aggregator lacks the other's share of a person's report, so it can
  make none of it; with a client's help it gets what that client gets.
  How many reports a person has is not for ids but for [permits](protocol.md#permits), whose key has
  no time but their window. The draft would refuse the second report. If both come into one job, the
  leader rejects the later one (`report_replayed`): a helper refuses a job that names an id twice,
  with all others in it. Within a day the second is refused.
- **An id is forgotten when its report would be refused.** `id_memories` has the first day whose ids
  are kept, written a transaction before any is deleted. A report whose unit begins on an earlier
  day does not count, whatever becomes of the clock or of `max_report_age_seconds`
  (`protocol.replay`).

## Where the keys of un-noised sums are

Beside an SQLite database each key lies in a slot of the key file (the database's path and
`.keys`), since a database keeps what was deleted for as long as anybody reads what was there
before. Releasing a batch overwrites the slots after the commit and before anybody is told of the
release; if the process dies between the two, the next one does so when it opens the store.
`PRAGMA user_version` is the first slot that the database has never named. Keys from there on that
have a mark before them are of a process that died before its commit, and are destroyed when the
store goes on. Keys without one are newer than this copy of the database, which then does not
open. Backups: [limits](limits.md). On a PostgreSQL server the slots are rows of
`bucket_key_slots`; the server [keeps them for longer](operations/postgresql.md).
"""

_OVERVIEW = """\
A bucket is a key, and a batch is all buckets of its task from `first_bucket` to `last_bucket`,
which belongs to it, in the order of their bytes. In the time-interval mode a key is a unit of
time. A batch that has a name instead of an interval is a range of one key. Columns that end in
`_at` are seconds since the Unix epoch by the database's clock. Primary keys are bold.

| table | columns |
| --- | --- |
"""


def render() -> str:
    """Return the whole document."""
    states = "\n".join(_diagram(machine) for machine in MACHINES)
    alike = groupby(metadata.sorted_tables, _description)
    listing = "".join(
        f"| {', '.join(f'`{table.name}`' for table in tables)} | {text} |\n"
        for text, tables in alike
    )
    return f"{_INTRODUCTION}\n## States\n\n{states}\n## Tables\n\n{_OVERVIEW}{listing}"


def _diagram(machine: Machine) -> str:
    edges = [
        f"    {source} --> {edge.target}: {edge.verb}"
        for edge in machine.transitions
        for source in edge.sources or ("[*]",)
    ]
    return "\n".join(
        [f"### {machine.name}", "", "```mermaid", "stateDiagram-v2", *edges, "```", ""]
    )


def _description(table: Table) -> str:
    names = (
        f"**`{column.name}`**" if column.primary_key else f"`{column.name}`"
        for column in table.columns
    )
    return " ".join(([table.comment] if table.comment else []) + [", ".join(names)])


if __name__ == "__main__":
    sys.stdout.write(render())
