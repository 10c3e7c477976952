"""A service's settings: what there are, and how they are read from a file and the environment."""

from typing import TYPE_CHECKING

from aggregator.lazily import exports

if TYPE_CHECKING:
    from aggregator.service.config.reading import check_private, read_settings, read_settings_of
    from aggregator.service.config.settings import (
        ANSWER_SECONDS,
        GROUP_REPORTS,
        MAX_BYTES_IN_FLIGHT,
        MAX_SECONDS,
        NEEDED_FIRST,
        REFUSAL_SECONDS,
        AggregatorSettings,
        AnySettings,
        CollectorSettings,
        HelperSettings,
        LeaderSettings,
        Schedule,
        ServiceSettings,
    )
    from aggregator.service.config.text_files import read_bytes, read_text
else:
    __getattr__ = exports(
        __name__,
        {
            "reading": ("check_private", "read_settings", "read_settings_of"),
            "settings": (
                "ANSWER_SECONDS",
                "GROUP_REPORTS",
                "MAX_BYTES_IN_FLIGHT",
                "MAX_SECONDS",
                "NEEDED_FIRST",
                "REFUSAL_SECONDS",
                "AggregatorSettings",
                "AnySettings",
                "CollectorSettings",
                "HelperSettings",
                "LeaderSettings",
                "Schedule",
                "ServiceSettings",
            ),
            "text_files": ("read_bytes", "read_text"),
        },
    )

__all__ = [
    "ANSWER_SECONDS",
    "GROUP_REPORTS",
    "MAX_BYTES_IN_FLIGHT",
    "MAX_SECONDS",
    "NEEDED_FIRST",
    "REFUSAL_SECONDS",
    "AggregatorSettings",
    "AnySettings",
    "CollectorSettings",
    "HelperSettings",
    "LeaderSettings",
    "Schedule",
    "ServiceSettings",
    "check_private",
    "read_bytes",
    "read_settings",
    "read_settings_of",
    "read_text",
]
