"""A PostgreSQL server of the tests' own, over a socket in a folder that is removed afterwards."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support import leftovers
from tests.support.patience import PATIENCE_SECONDS

_ACCOUNT = "postgres"
_SETTINGS = (
    "listen_addresses=",
    "max_connections=200",
    # Nothing here has to survive the machine.
    "fsync=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
)


def _program(name: str) -> str:
    """Return the path of one of the server's programs; Debian keeps them out of PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    path = str(found[-1]) if found else shutil.which(name)
    if path is None:
        pytest.skip(f"PostgreSQL is not installed (no {name}): apt-get install postgresql")
    return path


class Server:
    """A server in a folder of its own, which can be killed and started again.

    Args:
        folder: The folder, whose owner it becomes if we are root.
        options: More settings, as `name=value`.
    """

    def __init__(self, folder: Path, options: Sequence[str] = ()) -> None:
        _program("postgres")  # without it a test is skipped before anybody looks for its account
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        # The server refuses to be root, and a test's own folder is closed to others.
        self._user = _ACCOUNT if os.geteuid() == 0 else None
        if self._user is not None:
            shutil.chown(folder, self._user)

    @property
    def url(self) -> str:
        """Its URL, to which the name of a database is to be added by `named`."""
        return f"postgresql://{_ACCOUNT}@/?host={self._folder}"

    def make(self, *options: str) -> None:
        """Make its empty data, with more options of `initdb`."""
        account = f"--username={_ACCOUNT}"
        self._run("initdb", "--no-sync", "--auth=trust", account, "-E", "UTF8", *options)

    def copy(self, primary: "Server") -> None:
        """Make it a standby of a running server, under the name `standby`."""
        place = f"host={primary._folder} user={_ACCOUNT} application_name=standby"
        self._run("pg_basebackup", "--write-recovery-conf", "--no-sync", "-c", "fast", "-d", place)

    def promote(self) -> None:
        """Make a standby take writes."""
        self._run("pg_ctl", "promote", "--wait")

    def start(self) -> None:
        """Start it and wait until it answers.

        It may refuse at first: processes of one that was killed are still about to end.
        """
        settings = [f"-c{each}" for each in (*_SETTINGS, *self._options)]
        command = [_program("postgres"), "-D", self._data, *settings]
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            with (self._folder / "log").open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603  our own command
                    [*command, f"-cunix_socket_directories={self._folder}"],
                    user=self._user,
                    cwd=self._folder,
                    stdout=log,
                    stderr=log,
                )
            while self._process.poll() is None:
                try:
                    psycopg.connect(named(self.url, _ACCOUNT)).close()
                except psycopg.OperationalError:
                    assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
                    time.sleep(0.05)
                else:
                    return
            assert time.monotonic() < deadline, (self._folder / "log").read_text()[-2000:]
            time.sleep(0.1)

    @property
    def pid(self) -> int:
        """The first of its processes; it has been started."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """Kill its first process without warning (SIGKILL); the others notice and end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it and all connections, if it runs (SIGINT)."""
        if self._process is not None and self.is_running:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE_SECONDS)

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(  # noqa: S603  our own command
            [_program(program), *arguments, "-D", self._data],
            user=self._user,
            cwd=self._folder,
            check=True,
            capture_output=True,
        )


@contextmanager
def new_server(options: Sequence[str] = ()) -> Iterator[Server]:
    """Give a server that is made and not started; it is stopped afterwards."""
    # Most of its work is making files of databases and removing them, which a disk makes dear.
    with leftovers.folder_in_memory("prio-postgresql") as folder:
        server = Server(folder, options)
        try:
            yield server
        finally:
            server.stop()


def url_of_both(primary: Server, standby: Server) -> str:
    """Return the URL of whichever of the two takes writes."""
    return f"{primary.url},{standby._folder}&target_session_attrs=read-write"


def named(url: str, database: str) -> str:
    """Return the URL of a database of the server at `url`."""
    return url.replace("@/?", f"@/{database}?")


def execute(url: str, *statements: str) -> None:
    """Execute statements outside a transaction, in the server's own database."""
    with psycopg.connect(named(url, _ACCOUNT), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def create(url: str, name: str, template: str = "template1") -> None:
    """Make a database by copying another one's files: writing it to the log takes far longer."""
    with psycopg.connect(named(url, _ACCOUNT), autocommit=True) as connection:
        # An older server knows no other way, nor the word for it.
        by = "STRATEGY FILE_COPY" if connection.info.server_version >= 150000 else ""
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} {by}".encode())


def databases(url: str) -> set[str]:
    """Return the names of all databases of the server."""
    with psycopg.connect(named(url, _ACCOUNT), autocommit=True) as connection:
        return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
