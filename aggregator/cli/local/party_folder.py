"""One party's folder for a deployment: makes its files, and lists its operator's next steps.

    leader.toml     the service file
    store/          the database, which the service makes
    key/            the store's key: for another disk, and other backups, than store/
    journal/        an aggregator's journal of releases: for another disk, and for no backup

A file that exists is kept, whatever is in it, so that a half-made folder is completed and an
operator's changes stay.
"""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError
from aggregator.service.config import AggregatorSettings, AnySettings, read_settings
from aggregator.service.storage.engine.backends import backend
from aggregator.service.storage.engine.schema import is_made
from aggregator.service.storage.secrets.crypter import new_store_key
from aggregator.service.storage.secrets.files import create_private, create_secret, read_secret

PORTS: Final = {"leader": (8001, 9001), "helper": (8002, 9002), "collector": (8003, 9003)}
"""The ports of each service and its health listener, which deploy/ uses as well."""

_PRIVATE: Final = 0o700
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SERVE: Final = {"leader": "leader serve --work", "helper": "helper serve"}

_REQUIREMENTS: Final = """
[requirements]
# Tasks that protect people less are refused. A lower bound is yours to choose:
# min_batch_size = 100
# max_epsilon = "2"          # of one release, 8 unless you say otherwise; exact, as text
# population_required = "staff-2026"  # each task must name it; prio population gives it a budget
# limit_required = true      # each task must have a budget, or max_releases
"""
_PAGES: Final = """\
# Names of the proxy in front of the pages, joined by commas:
# allowed_hosts = "results.example"
"""


def prepare(party: str, folder: Path) -> list[Path]:
    """Make one party's folder, or complete it; start nothing; return the files that were made now.

    Raises OSError, or `ConfigurationError` for a folder or an existing file that is another
    party's, for a file that others may read, and for a store without its key.
    """
    for other in PORTS.keys() - {party}:
        if service_file(other, folder).exists():
            raise ConfigurationError(
                f"{folder}: is the {other}'s folder, and one operator must not have two parties' "
                "keys: name another folder"
            )
    folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
    file, made = service_file(party, folder), []
    if create_private(file, _service_text(party)):
        made.append(file)
    settings = read_settings(file)
    if settings.role != party:
        raise ConfigurationError(
            f"{file}: has the {settings.role}'s settings, not the {party}'s: name another folder"
        )
    for place in _places(settings):
        if not place.parent.exists():
            place.parent.mkdir(mode=_PRIVATE, parents=True)
            made.append(place.parent)
        mode = stat.S_IMODE(place.parent.stat().st_mode)
        if mode & _OTHERS:
            raise ConfigurationError(
                f"{place.parent}: its mode {mode:04o} lets others in; chmod 700 {place.parent}"
            )
    key = settings.store_key_file
    if key is not None and read_secret(key) is None:
        if is_made(settings.database_url):
            store = backend(settings.database_url).name
            raise ConfigurationError(
                f"the store {store} exists and its key {key} does not: bring the key back"
            )
        create_secret(key, new_store_key(SystemEntropy()))
        made.append(key)
    return made


def service_file(party: str, folder: Path) -> Path:
    """Return the service file of a party's folder."""
    return folder / f"{party}.toml"


def next_steps(party: str, file: Path) -> list[str]:
    """Return the operator's next steps, one on each line."""
    _, health_port = PORTS[party]
    config = f"--config {shlex.quote(str(file))}"
    if party == "collector":
        return [
            f"prio collector config {config}: send what it prints to the designer of the study",
            f"prio backup {config} collector.backup: nobody else has this key",
            (
                "the designer sends you task.toml and your collector.toml, over a channel that "
                f"only you read: prio task add {config} made/collector.toml"
            ),
            (
                f"prio collector serve {config}, behind a proxy that speaks TLS; or no service at "
                f"all, and prio survey collect task.toml {config}"
            ),
        ]
    other = "helper" if party == "leader" else "leader"
    return [
        (
            "put a proxy that speaks TLS in front of it (deploy/nginx), and give its https URL to "
            "the designer of the study: every task names it, and it cannot change later"
        ),
        (
            f"prio {_SERVE[party]} {config}; deploy/systemd has a unit. Its health is at "
            f"http://127.0.0.1:{health_port}/"
        ),
        f"prio doctor {config} --peer https://{other}.example/ once the {other} runs",
        (
            f"the designer sends you task.toml and your {party}.toml, over a channel that only "
            f"you read: prio task add {config} made/{party}.toml"
        ),
        "compare the fingerprints that prio survey show task.toml prints with the others'",
    ]


def _places(settings: AnySettings) -> Iterator[Path]:
    """Return those of a store, its key and its journal that are files."""
    if "://" not in settings.database:
        yield Path(settings.database)
    if settings.store_key_file is not None:
        yield settings.store_key_file
    if isinstance(settings, AggregatorSettings) and "://" not in settings.journal_place:
        yield Path(settings.journal_place)


def _service_text(party: str) -> str:
    port, health_port = PORTS[party]
    is_aggregator = party != "collector"
    journal = (
        f'release_journal = "journal/{party}.journal"  # better on a third disk, and in no backup\n'
        if is_aggregator
        else ""
    )
    return (
        "[service]\n"
        f'role = "{party}"\n'
        f'database = "store/{party}.sqlite"  # or postgresql://…\n'
        f"{journal}"
        f'listen = "127.0.0.1:{port}"         # plain HTTP, for a proxy that speaks TLS\n'
        f'health_listen = "127.0.0.1:{health_port}"  # /, /health and /metrics, for you alone\n'
        f"{'' if is_aggregator else _PAGES}"
        "\n[keys]\n"
        "# The store and its key reveal all: move key/ to another disk, and back it up apart.\n"
        f'store_key_file = "key/{party}.key"\n'
        f"{_REQUIREMENTS if is_aggregator else ''}"
    )
