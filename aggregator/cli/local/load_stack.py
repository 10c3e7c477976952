"""The services that `prio load` measures: its own, or those of a running `prio up`."""

import json
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aggregator.cli.local.costs import Costs, costs_of, processes_with, server_processes
from aggregator.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from aggregator.cli.local.folder import LocalFolder
    from aggregator.cli.local.services import Program

_PARTIES: Final = ("leader", "helper")


@dataclass(frozen=True, slots=True)
class Stack:
    """Services under load: their folder, and the service files of their processes, by party.

    `server` is the URL of the database server, if their stores are on one.
    """

    folder: "LocalFolder"
    configs: dict[str, Path]
    server: str | None

    @property
    def serves_alone(self) -> bool:
        """Whether the process that takes uploads does nothing else."""
        return "worker" in self.configs

    def costs(self) -> dict[str, Costs]:
        """Return what each process has used since it began, the database's under `database`."""
        found = {party: costs_of(processes_with(file)) for party, file in self.configs.items()}
        if self.server is not None:
            with _connected(self.server) as connection:
                session = connection.execute("SELECT pg_backend_pid()").fetchone()[0]
                found["database"] = costs_of(server_processes(session))
        return found

    def log_bytes(self) -> int | None:
        """Return how much the database server has written to its log; None without a server."""
        if self.server is None:
            return None
        with _connected(self.server) as connection:
            query = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
            return int(connection.execute(query).fetchone()[0])

    def settle(self) -> None:
        """Have the database server write what it holds back, if its user may ask for that."""
        if self.server is None:
            return
        with _connected(self.server) as connection:
            _checkpoint(connection)

    def stored_bytes(self) -> int:
        """Return the size of both aggregators' stores."""
        if self.server is None:
            files = (self.folder.path.glob(f"{party}.sqlite*") for party in _PARTIES)
            return sum(file.stat().st_size for each in files for file in each)
        with _connected(self.server) as connection:
            query = "SELECT sum(pg_database_size(oid)) FROM pg_database"
            return int(connection.execute(query).fetchone()[0])


def _checkpoint(connection: Any) -> None:  # noqa: ANN401  the driver is an extra's
    from psycopg.errors import InsufficientPrivilege

    with suppress(InsufficientPrivilege):
        connection.execute("CHECKPOINT")


def running_stack(up: Path | None) -> Stack:
    """Return the services of a `prio up`, by default those of the default folder.

    Raises `ConfigurationError` if nothing runs there.
    """
    from aggregator.cli.local.folder import DEFAULT, LocalFolder

    folder = LocalFolder.at(up or DEFAULT)
    if not folder.is_up:
        raise ConfigurationError(f"{folder.path}: no `prio up` runs there; or take --stack")
    configs = {party: folder.config(party).absolute() for party in _PARTIES}
    return Stack(folder, configs, None)


def started_stack(resources: ExitStack, postgres: str | None) -> Stack:
    """Start services over fresh stores until the end, the leader's workers in their own process.

    The stores are on a database server if there is one. Raises `ConfigurationError` if that cannot
    be used, and `LocalError` if a service died while it started.
    """
    import dataclasses

    from aggregator.cli.local.folder import LocalFolder
    from aggregator.cli.local.services import running

    place = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="prio-load-")))
    folder = LocalFolder.made(place)
    if postgres is not None:
        for party in _PARTIES:
            _keep_on_server(folder, party, resources.enter_context(_database(postgres, party)))
    worker = folder.path / "worker.toml"
    text = folder.config("leader").read_text(encoding="utf-8")
    kept = [line for line in text.splitlines() if not line.startswith("health_listen")]
    worker.write_text("\n".join([*kept, ""]), encoding="utf-8")
    worker.chmod(0o600)
    leader, helper = folder.programs(_PARTIES)
    serve = dataclasses.replace(
        leader, command=[each for each in leader.command if each != "--work"]
    )
    services = resources.enter_context(running([serve, helper]))
    services.start(_worker(leader, folder.config("leader").absolute(), worker))
    return Stack(
        folder,
        {
            "leader": folder.config("leader").absolute(),
            "worker": worker,
            "helper": folder.config("helper").absolute(),
        },
        postgres,
    )


def check_here(url: str) -> None:
    """Refuse a server that does not run on this machine, and a URL with a readable password."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    from aggregator.protocol.clear_text import is_loopback

    try:
        given = make_url(url)
    except (ArgumentError, ValueError):  # `from None`: the error may hold a password
        raise ParameterError("postgres: must be a URL, postgresql://host/database") from None
    if given.get_backend_name() != "postgresql":
        raise ParameterError("postgres: must begin with postgresql://")
    if given.password is not None or "password" in given.query:
        raise ParameterError(
            "postgres: give the password by PGPASSFILE: others here can read the command line"
        )
    host = given.host or given.query.get("host", "")
    if not (isinstance(host, str) and (host.startswith("/") or is_loopback(host))):
        raise ParameterError(
            "postgres: the server must be on this machine, since its processor time is measured"
        )


def _worker(leader: "Program", config: Path, worker: Path) -> "Program":
    import dataclasses

    words: dict[str | Path, str | Path] = {"serve": "work", config: worker}
    command = [words.get(each, each) for each in leader.command if each != "--work"]
    return dataclasses.replace(
        leader, name="worker", command=command, log=leader.log.with_name("worker.log")
    )


def _keep_on_server(folder: "LocalFolder", party: str, url: str) -> None:
    file = folder.config(party)
    there = f'database = {json.dumps(url)}\nrelease_journal = "{party}.journal"'
    lines = file.read_text(encoding="utf-8").splitlines()
    lines = [there if line.startswith("database") else line for line in lines]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")


@contextmanager
def _database(url: str, party: str) -> Iterator[str]:
    """Make a database on the server of `url`, and drop it at the end."""
    from sqlalchemy.engine import make_url

    name = f"prio_load_{party}_{secrets.token_hex(4)}"
    with _connected(url) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    try:
        yield make_url(url).set(database=name).render_as_string(hide_password=False)
    finally:
        with _connected(url) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def _connected(url: str) -> Iterator[Any]:
    try:
        import psycopg
    except ImportError:
        raise ConfigurationError(
            "PostgreSQL's driver is not installed: pip install 'prio-aggregator[postgresql]'"
        ) from None
    try:
        connection = psycopg.connect(url, autocommit=True)
    except psycopg.OperationalError as error:
        raise ConfigurationError(f"postgres: {str(error).splitlines()[0]}") from None
    except psycopg.Error:  # the message may hold the whole URL
        raise ConfigurationError(
            "postgres: the URL has an option that the driver refuses"
        ) from None
    with connection:
        yield connection
