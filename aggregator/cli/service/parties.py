"""A party's store as its operator uses it, through the desk of an aggregator or a collector.

It can be used while a service of the same party runs on the same store.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from aggregator.codec import DecodeError
from aggregator.dap.ids import TaskId
from aggregator.errors import ConfigurationError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TypeAlias

    from aggregator.cli.service.aggregator_desk import AggregatorDesk
    from aggregator.cli.service.collector_desk import CollectorDesk

    Desk: TypeAlias = AggregatorDesk | CollectorDesk


@contextmanager
def open_desk(config: Path | None, *, may_make: bool = True) -> Iterator[Desk]:
    """Open the store of the party that the settings are for, or raise `ConfigurationError`.

    With `may_make` a missing store is made; commands that only look do not.
    """
    from aggregator.service.config import CollectorSettings, read_settings
    from aggregator.service.storage.opening import open_aggregator_store, open_database

    settings = read_settings(config)
    with ExitStack() as opened:
        if isinstance(settings, CollectorSettings):
            from aggregator.cli.service.collector_desk import CollectorDesk

            database = open_database(settings, may_make=may_make)
            opened.callback(database.close)
            yield CollectorDesk(settings, database)
        else:
            from aggregator.cli.service.aggregator_desk import AggregatorDesk
            from aggregator.dap.profile import Role

            database, journal = open_aggregator_store(settings, may_make=may_make)
            opened.callback(journal.close)
            opened.callback(database.close)
            yield AggregatorDesk(Role[settings.role.upper()], settings, database, journal)


@contextmanager
def open_aggregator(config: Path | None, *, may_make: bool = True) -> Iterator[AggregatorDesk]:
    """Open an aggregator's store; raises what `open_desk` does, or if it is the collector's."""
    from aggregator.cli.service.aggregator_desk import AggregatorDesk

    with open_desk(config, may_make=may_make) as desk:
        if not isinstance(desk, AggregatorDesk):
            raise ConfigurationError(
                f"{config or 'the environment'}: has the collector's settings; only a leader or a "
                "helper has this"
            )
        yield desk


@contextmanager
def open_collector(config: Path | None, *, may_make: bool = True) -> Iterator[CollectorDesk]:
    """Open the collector's store; raises what `open_desk` does, or if it is an aggregator's."""
    from aggregator.cli.service.collector_desk import CollectorDesk
    from aggregator.service.config import CollectorSettings, read_settings_of
    from aggregator.service.storage.opening import open_database

    settings = read_settings_of(CollectorSettings, config)
    database = open_database(settings, may_make=may_make)
    try:
        yield CollectorDesk(settings, database)
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
