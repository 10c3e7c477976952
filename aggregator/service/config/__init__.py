"""A service's settings, and how they are read from a file and the environment."""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.service.config.aggregator_settings import (
        MAX_BYTES_IN_FLIGHT,
        AggregatorSettings,
        HelperSettings,
        LeaderSettings,
    )
    from aggregator.service.config.collector_settings import CollectorSettings, Schedule
    from aggregator.service.config.constants import (
        ANSWER_SECONDS,
        DEFERRED_AT_ONCE,
        DEFERRED_LEASE_SECONDS,
        DEFERRED_LOOK_SECONDS,
        DEFERRED_POLL_SECONDS,
        GROUP_REPORTS,
        LEFT_LOOK_SECONDS,
        MAX_ATTEMPTS,
        OUTGOING,
        POLL_SECONDS,
        REFUSAL_SECONDS,
        SMALL_JOBS,
        STALLED_SECONDS,
    )
    from aggregator.service.config.faults import in_words, place_of
    from aggregator.service.config.kinds import MAX_SECONDS
    from aggregator.service.config.plain_files import NotPlain, check_plain, open_plain, read_plain
    from aggregator.service.config.reading import (
        AnySettings,
        check_private,
        read_settings,
        read_settings_of,
    )
    from aggregator.service.config.service_settings import ServiceSettings
    from aggregator.service.config.tables import TABLES, TUNING, table_of
    from aggregator.service.config.text_files import read_bytes, read_text
else:
    __getattr__ = exports(
        __name__,
        {
            "aggregator_settings": (
                "MAX_BYTES_IN_FLIGHT",
                "AggregatorSettings",
                "HelperSettings",
                "LeaderSettings",
            ),
            "collector_settings": ("CollectorSettings", "Schedule"),
            "constants": (
                "ANSWER_SECONDS",
                "DEFERRED_AT_ONCE",
                "DEFERRED_LEASE_SECONDS",
                "DEFERRED_LOOK_SECONDS",
                "DEFERRED_POLL_SECONDS",
                "GROUP_REPORTS",
                "LEFT_LOOK_SECONDS",
                "MAX_ATTEMPTS",
                "OUTGOING",
                "POLL_SECONDS",
                "REFUSAL_SECONDS",
                "SMALL_JOBS",
                "STALLED_SECONDS",
            ),
            "faults": ("in_words", "place_of"),
            "kinds": ("MAX_SECONDS",),
            "plain_files": ("NotPlain", "check_plain", "open_plain", "read_plain"),
            "reading": ("AnySettings", "check_private", "read_settings", "read_settings_of"),
            "service_settings": ("ServiceSettings",),
            "tables": ("TABLES", "TUNING", "table_of"),
            "text_files": ("read_bytes", "read_text"),
        },
    )

__all__ = [
    "ANSWER_SECONDS",
    "DEFERRED_AT_ONCE",
    "DEFERRED_LEASE_SECONDS",
    "DEFERRED_LOOK_SECONDS",
    "DEFERRED_POLL_SECONDS",
    "GROUP_REPORTS",
    "LEFT_LOOK_SECONDS",
    "MAX_ATTEMPTS",
    "MAX_BYTES_IN_FLIGHT",
    "MAX_SECONDS",
    "OUTGOING",
    "POLL_SECONDS",
    "REFUSAL_SECONDS",
    "SMALL_JOBS",
    "STALLED_SECONDS",
    "TABLES",
    "TUNING",
    "AggregatorSettings",
    "AnySettings",
    "CollectorSettings",
    "HelperSettings",
    "LeaderSettings",
    "NotPlain",
    "Schedule",
    "ServiceSettings",
    "check_plain",
    "check_private",
    "in_words",
    "open_plain",
    "place_of",
    "read_bytes",
    "read_plain",
    "read_settings",
    "read_settings_of",
    "read_text",
    "table_of",
]
