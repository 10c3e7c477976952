"""The tokens that requests to the collector service may carry, kept in a file that may change.

The file holds one token a line, and all of them are accepted. So a token is replaced without a
pause: add the new one to the file, let users switch to it, remove the old one.
"""

from pathlib import Path

from aggregator.dap.auth import LEAST_CHARACTERS, hash_token
from aggregator.errors import ConfigurationError
from aggregator.service.storage.secrets.files import read_secret
from aggregator.service.telemetry.lines import log


class TokenFile:
    """The tokens of a file, read again whenever it has changed.

    Args:
        path: The file.

    Raises:
        ConfigurationError: The file cannot be read, holds no token or one that could be guessed, or
            is readable by others than its owner. If a file that was read before becomes so, its old
            tokens stay in use and the fault is logged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._state()
        self._hashes = self._read()

    def hashes(self) -> tuple[bytes, ...]:
        """Return the SHA-256 of each token that is accepted now."""
        state = self._state()
        if state != self._seen:
            self._seen = state
            try:
                self._hashes = self._read()
                log.info("tokens read again", file=str(self._path), tokens=len(self._hashes))
            except ConfigurationError as error:
                log.error("tokens stay as they were", reason=str(error))
        return self._hashes

    def _read(self) -> tuple[bytes, ...]:
        tokens = (read_secret(self._path) or "").split()
        if not tokens:
            raise ConfigurationError(f"{self._path}: holds no token")
        if min(map(len, tokens)) < LEAST_CHARACTERS:
            raise ConfigurationError(
                f"{self._path}: holds a token of fewer than {LEAST_CHARACTERS} characters, which "
                "could be guessed; `prio keys new` prints one that cannot"
            )
        return tuple(hash_token(token) for token in tokens)

    def _state(self) -> tuple[int, ...] | None:
        """Return a value that changes when the file does; None if there is no file."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino
