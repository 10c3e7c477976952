"""Fields of a form; each has a limit, which its error names."""

import re
import unicodedata
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from aggregator.dp.decimals import rational_in
from aggregator.errors import ParameterError

MOST_CHARACTERS: Final = {"text": 500, "title": 100, "asked": 100}
MOST_LINES: Final = {"labels": 200, "columns": 30, "regions": 40}
MOST_IN_A_LINE = 100
_LONGEST_NUMBER = 40
_WHOLE = re.compile(r"[0-9]{1,12}")
_PLAIN = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?|-?[0-9]{1,20}/[1-9][0-9]{0,19}")


class Fields:
    """The fields of a form, each read within its limit."""

    def __init__(self, fields: Mapping[str, str]) -> None:
        self._fields = fields

    def text(self, name: str) -> str:
        """Return a line of text."""
        text = self._fields[name].strip()
        most = MOST_CHARACTERS.get(name, MOST_IN_A_LINE)
        if len(text) > most:
            raise ParameterError(f"{name} may have {most} characters, not {len(text):,}")
        if any(unicodedata.category(each) in {"Cc", "Cs"} for each in text):
            raise ParameterError(f"{name} may have no control characters")
        return text

    def lines(self, name: str) -> list[str]:
        """Return the non-empty lines of a longer text, with their indentation."""
        lines = [each.rstrip() for each in self._fields[name].splitlines() if each.strip()]
        most = MOST_LINES[name]
        if len(lines) > most:
            raise ParameterError(f"{name} may have {most} lines, not {len(lines):,}")
        for number, line in enumerate(lines, start=1):
            if len(line) > MOST_IN_A_LINE:
                raise ParameterError(
                    f"{name}: line {number} may have {MOST_IN_A_LINE} characters, not {len(line):,}"
                )
            if any(unicodedata.category(each) in {"Cc", "Cs"} and each != "\t" for each in line):
                raise ParameterError(f"{name}: line {number} may have no control characters")
        return lines

    def raw(self, name: str) -> str:
        """Return a field unchanged, for the caller to split."""
        return self._fields[name]

    def whole(self, name: str, low: int, high: int) -> int:
        """Return a whole number."""
        text = self._fields[name].strip().replace(",", "")
        if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise ParameterError(
                f"{name} must be a whole number from {low:,} to {high:,}, not {short(text)}"
            )
        return int(text)

    def number(self, name: str, low: int, high: int) -> Fraction:
        """Return a number above `low`, and at most `high`."""
        return rational_in(self.exact(name, self._fields[name]), name, low, high, open_low=True)

    def exact(self, name: str, text: str) -> Fraction:
        """Return any exact number."""
        text = text.strip()
        if not _PLAIN.fullmatch(text):
            raise ParameterError(
                f"{name} must be a number such as 12, 0.5 or 1/3, not {short(text)}"
            )
        return Fraction(text)

    def one_of(self, name: str, possible: Mapping[str, str]) -> str:
        """Return a field that must be one of a list of words."""
        text = self._fields[name]
        if text not in possible:
            raise ParameterError(f"{name} must be one of {', '.join(possible)}, not {short(text)}")
        return text


def short(text: str) -> str:
    """Return a user's text, shortened, to be repeated in a message."""
    return repr(text[:_LONGEST_NUMBER] + ("…" if len(text) > _LONGEST_NUMBER else ""))
