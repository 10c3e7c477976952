"""`prio store`: operations on a store as a whole."""

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import Config, parse_time
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from aggregator.service.config import AggregatorSettings
    from aggregator.service.runtime.restoring import Presumed

MOST_FINDINGS = 20
"""How many findings a check says: more do not help, since all are mended by a backup."""

app = typer.Typer(
    no_args_is_help=True, help="Check or upgrade a store, or put a restored one right."
)


@app.command()
def check(config: Config = None) -> None:
    """Read a whole SQLite store for damage, while services use it; without any they may write.

    It finds pages, indexes and rows that do not fit together, and no byte that changed in a value.
    """
    from aggregator.service.config import read_settings
    from aggregator.service.storage.engine.backends import backend
    from aggregator.service.storage.engine.store_check import StoreCheck

    settings = read_settings(config)
    place = backend(settings.database_url)
    pages = place.page_check()
    if pages is None:
        raise ConfigurationError(
            "database: a PostgreSQL server's operator checks it, with data checksums and pg_amcheck"
        )
    if not place.exists():
        raise ConfigurationError(f"database: there is no store {place.name}: is its disk there?")
    StoreCheck(settings.database_url).run(most=MOST_FINDINGS, thorough=True)
    print(f"{place.name}: {pages.file_bytes():,} bytes, no damage found")


@app.command()
def upgrade(config: Config = None) -> None:
    """Upgrade a store to this program's schema in one transaction; stop its processes first."""
    from aggregator.service.config import read_settings
    from aggregator.service.storage.engine.backends import backend
    from aggregator.service.storage.engine.schema import upgrade as upgrade_schema

    settings = read_settings(config)
    found, made = upgrade_schema(settings.database_url)
    place = backend(settings.database_url).name
    print(f"{place}: schema {found}" + (f", now {made}" if made != found else ""))


@app.command(name="give-up-bodies")
def give_up_bodies(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be given up.")
    ] = False,
    even_all: Annotated[
        bool,
        typer.Option("--even-all", help="Give them up even if none of the objects is there."),
    ] = False,
    config: Config = None,
) -> None:
    """Give up the waiting reports whose bodies are lost; stop the leader's processes first.

    Each waiting body is looked for where report_bodies says now, and compared with what was stored.
    """
    from aggregator.dap.ids import TaskId
    from aggregator.service.config import LeaderSettings, read_settings_of
    from aggregator.service.storage.opening import open_aggregator_store
    from aggregator.service.storage.reports.giving_up import give_up_unreadable

    settings = read_settings_of(LeaderSettings, config)
    database, journal = open_aggregator_store(settings, may_make=False)
    try:
        if settings.report_bodies is not None:
            database.prove_objects()
        looked = give_up_unreadable(database, only_look=dry_run, even_all=even_all)
    finally:
        database.close()
        journal.close()
    lost = sum(each.reports for each in looked.losses.values())
    print(f"{looked.readable:,} waiting reports can be read, {lost:,} cannot")
    for task_id, loss in looked.losses.items():
        since = "" if loss.since is None else f", since {utc_text(loss.since)}"
        print(f"{TaskId(task_id)}: {loss.reports:,} reports in {loss.bodies:,} bodies{since}")
        for reports, what in (
            (loss.free, "whoever sends one of them again is counted"),
            (loss.spent, "one that is sent again is refused"),
            (loss.unnamed, "their ids are lost too: one that is sent again is taken for counted"),
            (loss.asked, "in requests to the helper; their jobs end as it answers"),
        ):
            if reports:
                print(f"  {reports:,}: {what}")
    if lost:
        print("nothing is given up yet" if dry_run else "given up")


@app.command()
def after_restore(
    backup_time: Annotated[
        str | None,
        typer.Option(
            help="When the backup was begun, or any earlier time after the store's newest "
            "entry: ISO 8601 or seconds since 1970."
        ),
    ] = None,
    trust_journal: Annotated[
        bool,
        typer.Option(
            "--trust-journal",
            help="Trust the journal of releases to be complete, as the lost store left it: "
            "close only what it names, and sums that have lost their keys.",
        ),
    ] = False,
    journal_damaged: Annotated[
        bool,
        typer.Option(
            "--journal-damaged",
            help="The journal is damaged or lost: rebuild it from what can be read of it and "
            "from the store. Leave --backup-time out only if this store is not from a backup; "
            "then nothing is closed or charged.",
        ),
    ] = False,
    lost_store_key: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The name of a store key that nobody has any more, 8 hexadecimal digits as "
            "in messages: close what is encrypted under it.",
        ),
    ] = None,
    config: Config = None,
) -> None:
    """Close and charge what may have been released since the backup that this store is from.

    The keys of sums that came after the backup are destroyed.
    """
    from aggregator.dap.profile import Role
    from aggregator.service.config import CollectorSettings, read_settings
    from aggregator.service.runtime.restoring import (
        Presumed,
        close_without_keys,
        destroy_newer_keys,
        presume_released,
    )
    from aggregator.service.storage.backup.reconciliation import mend, write_down
    from aggregator.service.storage.engine.store_check import StoreCheck
    from aggregator.service.storage.engine.transaction import Transaction
    from aggregator.service.storage.opening import open_aggregator_store
    from aggregator.service.storage.reports.claims import presume_asked

    settings = read_settings(config)
    if isinstance(settings, CollectorSettings):
        raise ConfigurationError(
            "role: a collector releases nothing, so there is nothing to do: start it as it is"
        )
    if trust_journal and journal_damaged:
        raise ParameterError(
            "journal-damaged: give either this or --trust-journal; a damaged journal is not trusted"
        )
    seconds = None if backup_time is None else parse_time(backup_time, "backup-time")
    if seconds is None and not (journal_damaged or trust_journal):
        raise ParameterError(
            "backup-time: missing; it can be left out only with --trust-journal, or with "
            "--journal-damaged if the store is not from a backup"
        )
    _check_lost_tasks(settings, are_known=trust_journal or seconds is None)
    went_back = trust_journal or seconds is not None
    role = Role[settings.role.upper()]
    gone = None if lost_store_key is None else _store_key_name(lost_store_key)

    def close(tx: Transaction) -> tuple[list[Presumed], int, int, dict[bytes, int]]:
        presumed, newer = [], destroy_newer_keys(tx)
        if went_back:
            presume_asked(tx)
        if seconds is not None and not trust_journal:
            presumed = presume_released(tx, role, seconds, settings.clock_skew_seconds)
        return presumed, newer, *close_without_keys(tx, gone)

    StoreCheck(
        settings.database_url
    ).before_serving()  # a backup may lie in a damaged store's place
    database, journal = open_aggregator_store(
        settings,
        may_make=not journal_damaged,
        journal_may_be_missing=not trust_journal,
        journal_may_be_damaged=journal_damaged,
        journal_damage_is_told=False,
        store_may_be_lost=trust_journal,
        may_be_older=went_back,
    )
    try:
        if journal_damaged:
            mended = mend(database, settings.role, journal, went_back=seconds is not None)
            print(
                f"{journal.name}: {mended.kept:,} releases kept, {mended.added:,} added from the "
                "store"
                if mended.was_damaged
                else f"{journal.name}: whole, with {mended.kept:,} releases, all of this store's "
                "among them"
            )
        if not went_back:
            return
        presumed, newer, lost, locked = database.run_sync("close restored", close)
        write_down(database, journal)
    finally:
        database.close()
        journal.close()
    for each in presumed:
        print(f"{each.task.task_id}: {_closed(each)}; {each.charges:,} releases charged")
    _say_what_is_lost(newer, lost, locked)


def _check_lost_tasks(settings: "AggregatorSettings", *, are_known: bool) -> None:
    """Refuse to presume releases while tasks come back that are in no backup and no journal."""
    if settings.in_band_tasks is not None and not are_known:
        raise ConfigurationError(
            "in_band_tasks: a task that came after the backup would come back, and nobody knows "
            "what it has released: take the setting away, and agree on other endpoints, under "
            "which all tasks are others, before you set it again"
        )


def _say_what_is_lost(newer: int, lost: int, locked: dict[bytes, int]) -> None:
    if newer:
        print(f"the keys of {newer:,} sums from after the backup were destroyed", file=sys.stderr)
    print(f"{lost:,} sums had lost their key and were closed", file=sys.stderr)
    for name, sums in locked.items():
        print(
            f"{sums:,} sums are under the store key {name.hex()}, which store_key does not have, "
            f"and were left alone: add it, or if it is gone call this with --lost-store-key "
            f"{name.hex()}",
            file=sys.stderr,
        )


def _store_key_name(text: str) -> bytes:
    from aggregator.service.storage.secrets.crypter import FINGERPRINT_SIZE

    if re.fullmatch(f"[0-9a-f]{{{2 * FINGERPRINT_SIZE}}}", text) is None:
        raise ParameterError(
            f"lost-store-key: must be {2 * FINGERPRINT_SIZE} hexadecimal digits, not {text!r}"
        )
    return bytes.fromhex(text)


def _closed(presumed: "Presumed") -> str:
    task = presumed.task
    if task.batching.has_ids:
        return "ended, since its reports name no batch"
    if presumed.closed is None:
        return "nothing to close"
    until = task.batching.described(presumed.closed, task.time_precision)["end"]
    return f"all batches before {utc_text(int(until))} are closed"
