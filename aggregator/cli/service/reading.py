"""A service's current settings: read at its start, and again whenever it is asked to."""

from pathlib import Path
from typing import Generic, TypeVar

from aggregator.errors import ConfigurationError
from aggregator.service.config import (
    CollectorSettings,
    HelperSettings,
    LeaderSettings,
    read_settings_of,
)

S = TypeVar("S", LeaderSettings, HelperSettings, CollectorSettings)

FIXED = (
    *("database", "release_journal", "report_bodies"),
    *("listen", "health_listen", "traces_endpoint"),
    *("tls_certificate", "tls_key", "client_ca"),
)
"""Settings that only take effect at a restart."""


class Reading(Generic[S]):
    """One party's settings, from its file and the environment, `now` as they were last read."""

    def __init__(self, kind: type[S], path: Path | None) -> None:
        """Read the settings; raises what `read_settings_of` does."""
        self._kind: type[S] = kind
        self._path = path
        self.now: S = read_settings_of(kind, path)

    def again(self) -> S:
        """Return the settings, read again; the environment is still that of the start.

        Raises `ConfigurationError` also if one has changed that needs a restart.
        """
        read: S = read_settings_of(self._kind, self._path)
        changed = [
            name for name in FIXED if getattr(read, name, None) != getattr(self.now, name, None)
        ]
        if changed:
            raise ConfigurationError(f"{', '.join(changed)}: can change only with a restart")
        self.now = read
        return read
