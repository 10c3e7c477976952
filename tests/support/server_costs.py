"""What a PostgreSQL server spends: processor time of all its processes, bytes of log and tables."""

import dataclasses
import os
from pathlib import Path
from typing import Self

import psycopg


@dataclasses.dataclass(frozen=True, slots=True)
class ServerCosts:
    """Costs since the server's start; sizes in bytes."""

    cpu_seconds: float
    log: int
    stored: int

    @classmethod
    def of(cls, url: str) -> Self:
        """Ask the server of the database at `url`, which runs on this machine (Linux)."""
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT pg_backend_pid(), pg_current_wal_lsn() - '0/0'::pg_lsn, "
                "(SELECT sum(pg_database_size(oid)) FROM pg_database)"
            ).fetchone()
            assert row is not None
            server = int(_stat(row[0])[1])
            # Of processes that have ended, their parent counts the time.
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
            ticks = sum(map(int, _stat(server)[11:15]))
            ticks += sum(sum(map(int, _stat(int(child))[11:13])) for child in children)
            return cls(ticks / os.sysconf("SC_CLK_TCK"), int(row[1]), int(row[2]))


def _stat(process: int) -> list[str]:
    """Return the fields of a process after its name: state, parent, …"""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
