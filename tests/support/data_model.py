"""Writes `docs/data-model.md` from the tables and the transitions, so that it cannot be wrong.

Run `make docs` after a change; a test compares.
"""

import re
import sys
from collections.abc import Sequence
from itertools import groupby

from sqlalchemy import Column, Table

from aggregator.service.storage.engine.states import MACHINES, Machine
from aggregator.service.storage.engine.tables import Uint64, metadata

_INTRODUCTION = """\
# Data model

*Written by `python -m tests.support.data_model`; do not edit by hand.*

Each aggregator has a store of its own: one SQLite file or one PostgreSQL database, its schema made
by the revisions in `aggregator/service/storage/engine/migrations` (`Database.open` refuses another
version and names both). Every verb of `aggregator/service/storage` works inside one transaction,
and a transaction in which a verb refused is rolled back whole.

What the order of the transactions promises, whenever a process is killed:

- **A stored report is never lost.** An upload that was answered is committed. Its body stays
  at least until its aggregation job ends, and it ends either in a bucket or in a counter with a
  reason: a verdict on this report, or an operator's command. A batch is not frozen while one of
  its stored reports is not aggregated, and no report is stored for a batch that is asked for,
  frozen or collected.
- **A report is counted once.** At the Leader `report_ids` refuses a second upload, a report is
  live in one group, `report_groups.job` lets one job claim that, and the group is deleted in the
  transaction that adds to the bucket. At the Helper `aggregated_reports` is written in it.
  Ids are forgotten when a report of their age is refused; `id_memories` says from when on they
  are remembered, before any is deleted.
- **A retry is the same request.** The Leader stores the exact bytes before it sends them, and
  the Helper stores its answer in the transaction that does the work.
- **A batch has one noised share per side.** Noise is drawn inside the transaction that stores the
  sealed share, charges the ledger and marks the batch collected. Before its commit nothing has
  left the process; after it the un-noised shares are destroyed, and then only these bytes leave.
- **Leases.** A driver moves a job only while the random token in the job's row is its own.

Un-noised shares of buckets are encrypted under a random key of their bucket. The key is encrypted
under the store's key and, beside an SQLite database, lies outside it, in a slot of the key file
(the database's path and `.keys`), since a database keeps what was deleted for as long as anybody
reads what was there before. Releasing a batch overwrites the slots after the commit and before
anybody is told of the release; if the process dies between the two, the next one does so when it
opens the store. `PRAGMA user_version` is the first slot that the database has never named. Keys
from there on that have a mark before them are of a process that died before its commit, and are
destroyed when the store goes on. Keys without one are newer than this copy of the database, which
then does not open. What is left of released shares in rows, free pages, the log or a copy of the
database has no key. A copy of the key file from before has: [limits](limits.md) says what that
means for backups. On a PostgreSQL server the slots are rows of `bucket_key_slots`, which the
releasing transaction deletes; the server keeps them for longer, as
[operations](operations/postgresql.md) says.
"""

_OVERVIEW = """\
Times called `uint64` are eight bytes, most significant first, in units of the task's time
precision; columns that end in `_at` are seconds since the Unix epoch by the database's clock.

A bucket is a key, and a batch is all buckets of its task from `first_bucket` to `last_bucket`,
which belongs to it, in the order of their bytes. Only the batch mode knows what keys mean: in the
time-interval mode a unit of time, eight bytes, most significant first. A batch that has a name
instead of an interval is a range of one key, so tables and verbs are the same in every mode.
"""


def render() -> str:
    """Return the whole document."""
    states = "\n".join(_diagram(machine) for machine in MACHINES)
    alike = groupby(metadata.sorted_tables, _description)
    listing = "\n".join(f"{_heading(list(tables))}\n\n{text}" for text, tables in alike)
    return f"{_INTRODUCTION}\n## States\n\n{states}\n## Tables\n\n{_OVERVIEW}\n{listing}"


def _diagram(machine: Machine) -> str:
    edges = [
        f"    {source} --> {edge.target}: {edge.verb}"
        for edge in machine.transitions
        for source in edge.sources or ("[*]",)
    ]
    return "\n".join(
        [f"### {machine.name}", "", "```mermaid", "stateDiagram-v2", *edges, "```", ""]
    )


def _heading(alike: Sequence[Table]) -> str:
    return "### " + ", ".join(f"`{table.name}`" for table in alike)


def _description(table: Table) -> str:
    about = [table.comment, ""] if table.comment else []
    heading = ["| column | type | meaning |", "| --- | --- | --- |"]
    rows = [_row(column) for column in table.columns]
    return "\n".join([*about, *heading, *rows, ""])


def _row(column: Column[object]) -> str:
    name = f"**`{column.name}`**" if column.primary_key else f"`{column.name}`"
    kind = _type_name(column.type) + (" or null" if column.nullable else "")
    return f"| {name} | {kind} | {column.comment} |"


def _type_name(kind: object) -> str:
    if isinstance(kind, Uint64):
        return "uint64"
    words = {"BLOB": "bytes", "TEXT": "text", "INTEGER": "integer", "BIGINT": "integer"}
    return words[re.sub(r"\(.*", "", str(kind))]


if __name__ == "__main__":
    sys.stdout.write(render())
