"""The folder of one operator who runs all three parties on one machine.

    up.toml             marks the folder, and says how it is laid out
    leader.toml, …      each party's service file; its store, key and log lie beside it
    form.toml           the address of the pages on which surveys are answered
    surveys/NAME/       a survey's public task.toml or survey.json, and each party's file
    rehearsals/NAME/    the same of its rehearsal, in which answers are made up
    replaced/NAME-1/    the same of its first draft, if another has replaced it
    next/NAME/          the same of a draft that is to replace one, until all parties have taken it
    pages.html          leads to the pages and logs in, while the services run
    up.lock             locked while the services run

The folder holds all three parties' keys, so only its owner may read it.
"""

import fcntl
import json
import os
import secrets
import socket
import stat
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from aggregator.cli.local.services import Program, answers
from aggregator.client.text import SURVEY, TASKS_OF_PAGES, TEXTS
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task_documents import place_in_text
from aggregator.service.config import read_text
from aggregator.service.storage.secrets.files import create_private

DEFAULT: Final = Path("prio-up")
"""The folder, unless another is named."""
PARTIES: Final = ("leader", "helper", "collector")
DRAFT: Final = "draft"
"""The file beside a survey's public one that says how many drafts it has replaced."""
WARNING: Final = (
    "One operator runs all three parties here, so nobody has privacy from that operator."
)

_COMMANDS: Final = {
    "leader": ("leader", "serve", "--work", "--processes=1"),  # all parties share this machine
    "helper": ("helper", "serve", "--processes=1"),
    "collector": ("collector", "serve"),
}
_FORM: Final = "form"
_SURVEYS: Final = "surveys"
_REHEARSALS: Final = "rehearsals"
_REPLACED: Final = "replaced"
_NEXT: Final = "next"
_MARKER: Final = "up.toml"
_LOCK: Final = "up.lock"
_LAYOUT: Final = 1
_PRIVATE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_FIRST_PORT: Final = 10_000
_LAST_PORT: Final = 30_000  # above it, systems assign ports to outgoing connections
_OVERRULING: Final = frozenset(
    f"PRIO_{name}"
    for name in (
        *("ROLE", "DATABASE", "RELEASE_JOURNAL", "LISTEN", "HEALTH_LISTEN"),
        *("STORE_KEY", "STORE_KEY_FILE", "TOKEN", "TOKEN_FILE"),
    )
)
"""Variables that would give all three parties the same store, key or port."""


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder of `prio up`, which exists."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> "LocalFolder":
        """Return the folder at a path.

        Raises `ConfigurationError` if it is not one, has an unknown layout or another owner, others
        may read it, or the environment overrides its settings.
        """
        if not is_one(path):
            raise ConfigurationError(
                f"{path}: was not made by `prio up`: name the folder of a `prio up`"
            )
        _check_own(path)  # the owner of the folder chooses who gets the answers
        marker = path / _MARKER
        layout = _toml(marker).get("layout")
        if layout != _LAYOUT:
            raise ConfigurationError(
                f"{marker}: layout must be {_LAYOUT}, not {layout!r}: another version of prio made "
                "this folder; use that version, or name another folder"
            )
        overruling = sorted(_OVERRULING & os.environ.keys())
        if overruling:
            raise ConfigurationError(
                f"{overruling[0]}: is set in the environment and would overrule the settings of "
                f"all three parties in {path}: unset it"
            )
        return cls(path)

    @classmethod
    def made(cls, path: Path) -> "LocalFolder":
        """Return the folder at a path, made or completed: each party's service file, and a marker.

        Raises `ConfigurationError` as `at` does, or if something else is there; OSError if the
        folder cannot be made.
        """
        if not is_one(path):
            path.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
            for each in path.iterdir():
                if each.name != _LOCK and not each.name.startswith(f"{_MARKER}."):
                    raise ConfigurationError(
                        f"{path}: was not made by `prio up` and holds {each.name}: name a folder "
                        "that is empty or does not exist"
                    )
            path.chmod(_PRIVATE)
            create_private(path / _MARKER, f"# {WARNING}\nlayout = {_LAYOUT}\n")
        folder = cls.at(path)
        missing = [each for each in PARTIES if not folder.config(each).exists()]
        ports = _free_ports(2 * len(missing))
        for name, port, health_port in zip(missing, ports[::2], ports[1::2], strict=True):
            create_private(folder.config(name), _service_file(name, port, health_port))
        if not folder.config(_FORM).exists():
            (port,) = _free_ports(1)
            create_private(folder.config(_FORM), _form_file(port))
        return folder

    @property
    def surveys(self) -> Path:
        """The folder with one folder for each survey."""
        return self.path / _SURVEYS

    @property
    def rehearsals(self) -> Path:
        """The folder with one folder for each survey that was rehearsed, named as in `surveys`."""
        return self.path / _REHEARSALS

    @property
    def replaced(self) -> Path:
        """The folder with one folder for each draft of a survey that another has replaced."""
        return self.path / _REPLACED

    @property
    def next(self) -> Path:
        """The folder with one folder for each draft that is to replace one, while it is tried."""
        return self.path / _NEXT

    @property
    def token(self) -> Path:
        """The file with the token that opens the collector's pages."""
        return self.path / "collector.sqlite.token"

    def config(self, party: str) -> Path:
        """Return a party's service file."""
        return self.path / f"{party}.toml"

    def url(self, party: str) -> str:
        """Return the URL at which a party serves."""
        return f"http://{self._address(party, 'listen')}/"

    def status_url(self, party: str) -> str:
        """Return the URL of a party's health listener."""
        return f"http://{self._address(party, 'health_listen')}/"

    @property
    def form_server(self) -> Program:
        """The program that serves the pages on which surveys are answered."""
        address = self._address(_FORM, "listen")
        return Program(
            "form server",
            (
                *(sys.executable, "-P", "-m", "aggregator.cli", "survey", "form"),
                *("--up", self.path.absolute(), "--serve", address),
            ),
            self.path / f"{_FORM}.log",
            self.url(_FORM),
        )

    def form_url(self, survey: str) -> str:
        """Return the URL at which a survey is answered, given the name of its folder."""
        return f"{self.url(_FORM)}{quote(survey)}"

    def chart_urls(self, place: Path) -> list[str]:
        """Return the URLs at which the collector shows the results of the survey in a folder.

        There is one, or one for each question if they are text questions only. Raises
        `ConfigurationError` if a public file has no id.
        """
        at = f"{self.url('collector')}questions"
        file = public_in(place)
        if file.name != SURVEY:
            return [f"{at}/{_id_in(file, _toml(file))}"]
        firsts = sorted((place / TEXTS).glob(f"*/{TASKS_OF_PAGES}"))
        return [f"{at}/{_id_in(each, json.loads(read_text(each))[0])}/words" for each in firsts]

    @property
    def survey_names(self) -> list[str]:
        """The folders of all surveys that are asked here."""
        return [file.parent.name for file in public_files(self.surveys)]

    @property
    def rehearsed(self) -> list[Path]:
        """The folders of all rehearsals of surveys that are asked here."""
        found = [file.parent for file in public_files(self.rehearsals)]
        return [place for place in found if (self.surveys / place.name).exists()]

    def programs(self, parties: Sequence[str] = PARTIES) -> list[Program]:
        """Return the services of some parties."""
        return [
            Program(
                party,
                (
                    # -P: import nothing from the user's current folder.
                    *(sys.executable, "-P", "-m", "aggregator.cli", *_COMMANDS[party]),
                    *("--config", self.config(party).absolute()),
                ),
                self.path / f"{party}.log",
                f"{self.status_url(party)}healthz",
            )
            for party in parties
        ]

    @property
    def is_up(self) -> bool:
        """Whether the leader answers, which stands for all: they start and end together."""
        return answers(f"{self.status_url('leader')}healthz")

    def check_ports(self) -> None:
        """Check that every party can listen at its port, or raise `ConfigurationError`."""
        listening = [(party, each) for party in PARTIES for each in ("listen", "health_listen")]
        for party, setting in [*listening, (_FORM, "listen")]:
            address = self._address(party, setting)
            host, _, port = address.rpartition(":")
            try:
                socket.create_server((host.strip("[]"), int(port))).close()
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                raise ConfigurationError(
                    f"{self.config(party)}: {setting}: {address}: {reason}. The surveys here "
                    "name the leader's and the helper's address, so end the program that has "
                    "it; if there is no survey yet, change it"
                ) from error

    @contextmanager
    def held(self) -> Iterator[int]:
        """Hold the folder's lock, so that nobody else runs the services; yields its descriptor.

        Raises `ConfigurationError` if somebody else holds it.
        """
        place = self.path / _LOCK
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()
                raise ConfigurationError(
                    f"{self.path}: `prio up` runs here, or is ending (process {holder}); its pages "
                    f"are at {self.url('collector')}"
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield descriptor
        finally:
            os.close(descriptor)

    def tasks_of_only_survey(self) -> Path:
        """Return the public file of the one survey that is asked here.

        Raises `ParameterError` if there is no survey, or there are several.
        """
        found = public_files(self.surveys)
        if not found:
            raise ParameterError(
                f"{self.path}: no survey is asked here; `prio survey new survey.toml` adds one"
            )
        if len(found) > 1:
            names = ", ".join(map(str, found))
            raise ParameterError(
                f"task.toml: {len(found)} surveys are asked here, name one: {names}"
            )
        return found[0]

    def _address(self, party: str, setting: str) -> str:
        table = _toml(self.config(party))
        settings = table.get("service", table)  # the form's file has no tables
        address = settings.get(setting) if isinstance(settings, dict) else None
        if not isinstance(address, str):
            raise ConfigurationError(f"{self.config(party)}: {setting}: missing")
        return address


def is_one(path: Path) -> bool:
    """Return whether a path is a folder of `prio up`."""
    return (path / _MARKER).exists()


def found(path: Path | None = None) -> LocalFolder | None:
    """Return the named folder, or else the current one or the one with the usual name.

    Raises `ConfigurationError` as `LocalFolder.at` does.
    """
    if path is not None:
        return LocalFolder.at(path)
    return next((LocalFolder.at(each) for each in (Path(), DEFAULT) if is_one(each)), None)


def public_in(place: Path) -> Path:
    """Return the public file in a survey's folder."""
    task = place / "task.toml"
    return task if task.exists() else place / SURVEY


def public_files(surveys: Path) -> list[Path]:
    """Return the public files of all surveys with a folder in this one, by name."""
    found = [public_in(place) for place in sorted(surveys.glob("*"))]
    return [file for file in found if file.exists()]


def around(tasks: Path) -> LocalFolder | None:
    """Return the folder of `prio up` that has a public file, of whatever survey, if one has."""
    place = tasks.absolute().parent.parent
    path = place.parent
    return (
        LocalFolder.at(path)
        if place.name in (_SURVEYS, _REHEARSALS, _REPLACED) and is_one(path)
        else None
    )


def _id_in(file: Path, table: dict[str, object]) -> str:
    found = table.get("id")
    if not isinstance(found, str):
        raise ConfigurationError(f"{file}: id: missing")
    return found


def _check_own(path: Path) -> None:
    """Refuse a folder whose keys others may read."""
    status = path.stat()
    if status.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{path}: belongs to another user: call this as that user, or name another folder"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & _OTHERS:
        raise ConfigurationError(
            f"{path}: holds all three parties' keys, and its mode {mode:04o} lets others in; "
            f"chmod 700 {path}"
        )


def _service_file(party: str, port: int, health_port: int) -> str:
    # Results are read as soon as they can be, and by one person.
    at_once = "\n[tuning]\nlinger_seconds = 0\n" if party == "leader" else ""
    return (
        f"# {WARNING}\n"
        "[service]\n"
        f'role = "{party}"\n'
        f'database = "{party}.sqlite"\n'
        f'listen = "127.0.0.1:{port}"\n'
        f'health_listen = "127.0.0.1:{health_port}"\n'
        "\n[keys]\n"
        f'store_key_file = "{party}.key"  # beside the store, as where only one has both\n'
        f"{at_once}"
    )


def _form_file(port: int) -> str:
    return (
        "# Where the pages are on which surveys are answered. Browsers keep what they have not\n"
        "# sent, and that they have answered, for this very address.\n"
        f'listen = "127.0.0.1:{port}"\n'
    )


def _free_ports(count: int) -> list[int]:
    """Return free loopback ports, drawn at random so that two folders get different ones."""
    with ExitStack() as stack:
        ports: list[int] = []
        while len(ports) < count:
            port = _FIRST_PORT + secrets.randbelow(_LAST_PORT - _FIRST_PORT)
            try:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            ports.append(port)
    return ports


def _toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_text(file))
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{file}: not TOML{place_in_text(str(error))}") from None


def public_file(file: Path | None, up: Path | None) -> tuple[Path, LocalFolder | None]:
    """Return a survey's public file, and its folder of `prio up` if it is asked there.

    The file or the folder is named. Raises `ParameterError` if both are, if neither is found, or if
    several surveys are asked there; `ConfigurationError` as `LocalFolder.at` does.
    """
    if file is not None:
        if up is not None:
            raise ParameterError("up: stands for task.toml, so give one of them")
        return file, around(file)
    folder = found(up)
    if folder is None:
        raise ParameterError("task.toml: missing; or give --up with the folder of a `prio up`")
    return folder.tasks_of_only_survey(), folder
