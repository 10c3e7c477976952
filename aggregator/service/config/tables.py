"""In which table of a party's file each setting stands."""

from collections.abc import Mapping
from typing import Final

from aggregator.service.config.aggregator_settings import HelperSettings, LeaderSettings
from aggregator.service.config.collector_settings import CollectorSettings

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "service": (
        "role",
        "database",
        "release_journal",
        "report_bodies",
        "listen",
        "health_listen",
        "allowed_hosts",
        "word_lists",
        "permit_lists",
        "time_zone",
        "defer_jobs",
        "in_band_tasks",
        "log_format",
        "retention_seconds",
    ),
    "keys": ("store_key_file", "store_key", "token_file", "token"),
    "requirements": (
        "min_batch_size",
        "max_epsilon",
        "max_delta",
        "max_rho",
        "limit_required",
        "exact_results",
        "population_required",
    ),
    "tls": (
        "tls_certificate",
        "tls_key",
        "client_ca",
        "peer_ca",
        "client_certificate",
        "client_key",
        "insecure_http",
    ),
}
"""Settings by the table of the file in which they stand; one that is not here stands in `TUNING`.

In the first three stands what an operator has to choose.
"""

TUNING: Final = "tuning"
"""The table of all other settings, whose defaults serve."""

SCHEDULE: Final = "schedule"
"""The one setting that is a list of tables."""


def table_of(name: str) -> str | None:
    """Return the table of the file in which a setting stands; None if there is no such setting."""
    for table, names in TABLES.items():
        if name in names:
            return table
    kinds = (LeaderSettings, HelperSettings, CollectorSettings)
    is_one = name != SCHEDULE and any(name in kind.model_fields for kind in kinds)
    return TUNING if is_one else None
