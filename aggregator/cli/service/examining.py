"""Looks at a party's store, as its service does for `/health` and a command for `prio status`."""

from aggregator.collector.status import read_collector_health
from aggregator.dap.profile import Role
from aggregator.service.config import AggregatorSettings, LeaderSettings
from aggregator.service.runtime.status import read_aggregator_health
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.ledger.journal import Journal, journal_faults
from aggregator.service.telemetry.health import Health


def examine_aggregator(
    settings: AggregatorSettings, role: Role, database: Database, journal: Journal
) -> Health:
    """Look at an aggregator's store, and at its journal of releases."""
    stalled_seconds = settings.stalled_seconds if isinstance(settings, LeaderSettings) else 0
    faults = journal_faults(journal)
    return database.read_sync(
        "health", lambda tx: read_aggregator_health(tx, role, stalled_seconds, faults)
    )


def examine_collector(database: Database) -> Health:
    """Look at a collector's store."""
    return database.read_sync("health", read_collector_health)
