"""A TOML table that checks what is read from it; errors name the key.

A key that is read raises `ParameterError` if it is missing, of another type or out of range.
"""

from collections.abc import Collection, Mapping

from aggregator.errors import ParameterError
from aggregator.untrusted_text import near


class TomlTable:
    """A TOML table in which a key that nobody reads is an error."""

    def __init__(self, values: Mapping[str, object], name: str) -> None:
        self.values = dict(values)
        self.prefix = f"{name}." if name else ""

    def _take(self, key: str) -> object:
        if key not in self.values:
            misspelt = near(key, self.values)
            there = f"; there is {misspelt}" if misspelt else ""
            raise ParameterError(f"{self.prefix}{key}: missing{there}")
        return self.values.pop(key)

    def text(self, key: str) -> str:
        """Take a text."""
        value = self._take(key)
        if not isinstance(value, str):
            raise ParameterError(f"{self.prefix}{key}: must be text in quotation marks")
        return value

    def text_or(self, key: str, default: str) -> str:
        """Take a text, if there is one."""
        return self.text(key) if key in self.values else default

    def integer(self, key: str) -> int:
        """Take a whole number from 0 to 2^64 - 1."""
        return self._integer(key, self._take(key))

    def _integer(self, key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ParameterError(f"{self.prefix}{key}: must be a whole number")
        if not 0 <= value < 2**64:
            raise ParameterError(f"{self.prefix}{key}: must be from 0 to 2^64 - 1, not {value}")
        return value

    def table(self, key: str) -> "TomlTable":
        """Take a table."""
        value = self._take(key)
        if not isinstance(value, dict):
            raise ParameterError(f"{self.prefix}{key}: must be a table, [{key}]")
        return TomlTable(value, f"{self.prefix}{key}")

    def optional_table(self, key: str) -> "TomlTable | None":
        """Take a table, if there is one."""
        return self.table(key) if key in self.values else None

    def remaining(self, texts: Collection[str]) -> dict[str, int | str]:
        """Take all keys that are left: those named in `texts` as text, others as whole numbers."""
        return {
            key: self.text(key) if key in texts else self.integer(key) for key in [*self.values]
        }

    def finish(self) -> None:
        """Refuse keys that nobody has read."""
        for key in self.values:
            raise ParameterError(f"{self.prefix}{key}: no such setting")
