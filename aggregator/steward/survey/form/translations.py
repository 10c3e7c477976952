"""Every string of a survey's page: in English in `words/en.toml`, and other values in others.

Labels and questions are the survey's own. Names in braces stand for numbers and names that the page
fills in; a translation has the same ones.
"""

import json
import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final

from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant


@lru_cache
def shipped(language: str) -> Mapping[str, str]:
    """Return the words of a language that the package has."""
    file = files("aggregator.steward.survey.form") / "words" / f"{language}.toml"
    return MappingProxyType(tomllib.loads(file.read_text("utf-8")))


WORDS: Final = shipped("en")

_NAMES = re.compile(r"\{([^{}]*)\}")


def words_of(text: str) -> dict[str, str]:
    """Return the words of a translation, a JSON object of texts; what it leaves out stays English.

    Raises `ParameterError` for an unknown name, or other names in braces than the English ones.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"words: not JSON: {error}") from None
    if not isinstance(given, dict):
        raise ParameterError("words: must be a JSON object of texts")
    for name, value in given.items():
        if name not in WORDS:
            raise ParameterError(f"words: there is no {name!r}{meant(name, WORDS)}")
        if not isinstance(value, str):
            raise ParameterError(f"words: {name} must be text")
        if sorted(_NAMES.findall(value)) != sorted(_NAMES.findall(WORDS[name])):
            names = ", ".join(_NAMES.findall(WORDS[name])) or "none"
            raise ParameterError(f"words: {name} must have these names in braces: {names}")
    if given.get("dir", "ltr") not in ("ltr", "rtl"):
        raise ParameterError("words: dir must be ltr or rtl")
    return {**WORDS, **given}


def filled(text: str, **values: str) -> str:
    """Return a text with its names in braces replaced."""
    return _NAMES.sub(lambda match: values[match[1]], text)
