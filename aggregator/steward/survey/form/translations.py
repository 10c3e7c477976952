"""Every string of a survey's page, in a file for each language; a survey may have other values.

Labels and questions are the survey's own. Names in braces stand for numbers and names that the page
fills in; a translation has the same ones. No string needs a plural: where a number could ask for
one, it stands behind a colon, or in brackets.
"""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from aggregator.errors import ParameterError
from aggregator.steward.survey.said import names_in
from aggregator.untrusted_text import meant

SHIPPED: Final = ("ar", "de", "en", "es", "fr", "it", "pl")
"""The languages that the package has."""

LANGUAGE: Final = r"^[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?$"
"""A language as browsers know it. Source: RFC 5646, "Syntax", without what few need."""


@lru_cache
def shipped(language: str) -> Mapping[str, str]:
    """Return the words of a language that the package has."""
    return MappingProxyType(tomllib.loads(text_of_words(language)))


def text_of_words(language: str = "en") -> str:
    """Return the file with the words of a language that the package has."""
    file = files("aggregator.steward.survey.form") / "words" / f"{language}.toml"
    return file.read_text("utf-8")


WORDS: Final = shipped("en")


def words_in(language: str, given: Mapping[str, str] = MappingProxyType({})) -> Mapping[str, str]:
    """Return the words of a language: those given, and else those that the package has.

    Raises `ParameterError` for an unknown name, other names in braces than the English ones, or
    words that are missing.
    """
    at = f"words: {language}"
    for name, value in given.items():
        if name not in WORDS:
            raise ParameterError(f"{at}: there is no {name!r}{meant(name, WORDS)}")
        if names_in(value) != names_in(WORDS[name]):
            names = ", ".join(names_in(WORDS[name])) or "none"
            raise ParameterError(f"{at}: {name}: must have these names in braces: {names}")
    if given.get("dir", "ltr") not in ("ltr", "rtl"):
        raise ParameterError(f"{at}: dir: must be ltr or rtl")
    base = language.partition("-")[0]
    found = {**(shipped(base) if base in SHIPPED else {}), **given}
    if lacking := [name for name in WORDS if name not in found]:
        raise ParameterError(
            f"{at}: {', '.join(lacking)}: missing; the package has the page's words in "
            f"{', '.join(SHIPPED)}, and `prio survey form --print-words` prints them to be "
            "translated"
        )
    return found
