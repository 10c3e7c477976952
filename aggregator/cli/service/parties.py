"""A party with its store open, for the commands of its operator.

A store can be used while a service of the same party runs on it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from aggregator.codec import DecodeError
from aggregator.dap.ids import TaskId
from aggregator.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from aggregator.dap.profile import Role
    from aggregator.service.config import AggregatorSettings, CollectorSettings
    from aggregator.service.storage.engine.database import Database
    from aggregator.service.storage.ledger.journal import Journal


@dataclass(frozen=True, slots=True)
class AggregatorParty:
    """A leader or a helper."""

    role: Role
    settings: AggregatorSettings
    database: Database
    journal: Journal


@dataclass(frozen=True, slots=True)
class CollectorParty:
    """A collector."""

    settings: CollectorSettings
    database: Database


Party: TypeAlias = AggregatorParty | CollectorParty


@contextmanager
def open_party(config: Path | None, *, may_make: bool = True) -> Iterator[Party]:
    """Open the store of the party that the settings are for, or raise `ConfigurationError`.

    With `may_make` a missing store is made; commands that only look do not.
    """
    from aggregator.dap.profile import Role
    from aggregator.service.config import CollectorSettings, read_settings
    from aggregator.service.storage.opening import open_aggregator_store, open_database

    settings = read_settings(config)
    with ExitStack() as opened:
        if isinstance(settings, CollectorSettings):
            database = open_database(settings, may_make=may_make)
            opened.callback(database.close)
            yield CollectorParty(settings, database)
        else:
            database, journal = open_aggregator_store(settings, may_make=may_make)
            opened.callback(journal.close)
            opened.callback(database.close)
            yield AggregatorParty(Role[settings.role.upper()], settings, database, journal)


@contextmanager
def open_aggregator(config: Path | None, *, may_make: bool = True) -> Iterator[AggregatorParty]:
    """Open an aggregator's store; raises what `open_party` does, or if it is the collector's."""
    with open_party(config, may_make=may_make) as party:
        if not isinstance(party, AggregatorParty):
            raise ConfigurationError(
                f"{config or 'the environment'}: has the collector's settings; only a leader or a "
                "helper has this"
            )
        yield party


@contextmanager
def open_collector(config: Path | None, *, may_make: bool = True) -> Iterator[CollectorParty]:
    """Open the collector's store; raises what `open_party` does, or if it is an aggregator's."""
    from aggregator.service.config import CollectorSettings, read_settings_of
    from aggregator.service.storage.opening import open_database

    settings = read_settings_of(CollectorSettings, config)
    database = open_database(settings, may_make=may_make)
    try:
        yield CollectorParty(settings, database)
    finally:
        database.close()


def task_id_of(text: str) -> TaskId:
    """Return the task id in an argument, or raise `ParameterError`."""
    try:
        return TaskId.parse(text)
    except DecodeError as error:
        raise ParameterError(
            f"task id: {text!r} is not one; `prio task list` prints them: {error}"
        ) from None


def no_task(task_id: TaskId) -> ParameterError:
    """Return the error of a party that does not take part in a task."""
    return ParameterError(
        f"task: this party has no task {task_id}; `prio task list` prints those that it has"
    )
