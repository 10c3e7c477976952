"""Lists of sections as text and as bytes, each with one spelling only.

In text a section is its kind and its numbers, `onehot:5 atmost:7,3 given:0,5,100 table:0,1`;
sections are separated by spaces and numbered from 0. In bytes there is their number (two bytes),
then for each the kind (one byte), entries (four), bound (eight), and the two sections to which it
refers (two each), all big-endian. What a kind does not have is 0; the bound of bits is 1.
"""

import functools
import re
import struct

from aggregator.errors import ParameterError
from aggregator.untrusted_text import meant
from aggregator.vdaf.circuits.section_base import Section
from aggregator.vdaf.circuits.section_choices import AtMost, OneHot, Table
from aggregator.vdaf.circuits.section_numbers import ByGroup, Given, Number

KINDS: dict[str, type[Section]] = {
    kind.name: kind for kind in (OneHot, AtMost, Number, ByGroup, Given, Table)
}
"""All kinds, by the name in a text."""

MAX_SECTIONS = 3854
"""The most that fit into the 2^16 - 1 bytes that DAP allows for a configuration."""

MAX_RESIDUES = 2**18
"""Residues of one report: 4 MiB for its leader. Checks are fewer still."""

_COUNT = struct.Struct(">H")
_ROW = struct.Struct(">BIQHH")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")

Sections = tuple[Section, ...]


@functools.lru_cache(maxsize=256)
def sections_of_text(text: str) -> Sections:
    """Return the sections that a text names.

    Raises:
        ParameterError: A section is invalid; the message names it, its number and the limit.
    """
    words = text.split()
    if not 1 <= len(words) <= MAX_SECTIONS:
        raise ParameterError(f"sections: there must be 1 to {MAX_SECTIONS}, not {len(words)}")
    made: list[Section] = []
    residues = 0
    for word in words:
        try:
            section = _section_of_word(word, made)
        except ParameterError as error:
            raise ParameterError(f"sections: section {len(made)}, {word[:40]!r}: {error}") from None
        residues += section.summed + section.claims
        if residues > MAX_RESIDUES:
            raise ParameterError(
                f"sections: all must have at most {MAX_RESIDUES} residues, and sections 0 to "
                f"{len(made)} have {residues}"
            )
        made.append(section)
    return tuple(made)


def text_of_sections(sections: Sections) -> str:
    """Return the canonical text of sections."""
    return " ".join(section.text for section in sections)


def bytes_of_sections(text: str) -> bytes:
    """Return the bytes of the sections that a text names."""
    sections = sections_of_text(text)
    rows = (_ROW.pack(each.code, *each.row) for each in sections)
    return _COUNT.pack(len(sections)) + b"".join(rows)


def sections_of_bytes(data: bytes) -> str:
    """Return the text of the sections that `bytes_of_sections` wrote.

    Raises:
        ParameterError: The bytes are too few or too many, name an unknown kind, are not 0 where a
            kind has nothing, or describe invalid sections.
    """
    count = _COUNT.unpack_from(data)[0] if len(data) >= _COUNT.size else 0
    if len(data) != _COUNT.size + _ROW.size * count:
        raise ParameterError(
            f"sections: {count} must have {_COUNT.size + _ROW.size * count} bytes, not {len(data)}"
        )
    codes = {kind.code: name for name, kind in KINDS.items()}
    words: list[str] = []
    for code, entries, bound, of, by in _ROW.iter_unpack(data[_COUNT.size :]):
        if code not in codes:
            raise ParameterError(f"sections: section {len(words)}: kind {code} is not known")
        known = {"entries": entries, "most": bound, "largest": bound, "of": of, "by": by}
        numbers = (str(known[name]) for name in KINDS[codes[code]].number_names)
        words.append(f"{codes[code]}:{','.join(numbers)}")
    text = " ".join(words)
    if bytes_of_sections(text) != data:
        raise ParameterError("sections: not the canonical encoding")
    return text


def _section_of_word(word: str, earlier: list[Section]) -> Section:
    name, _, numbers = word.partition(":")
    if name not in KINDS:
        raise ParameterError(f"the kind must be one of {', '.join(KINDS)}{meant(name, KINDS)}")
    kind = KINDS[name]
    texts = numbers.split(",")
    for text in texts:
        if _NUMBER.fullmatch(text) is None:
            raise ParameterError(f"{text[:40]!r} must be a whole number in digits")
    if len(texts) != len(kind.number_names):
        names = ",".join(kind.number_names)
        raise ParameterError(f"its numbers must be {names}, not {len(texts)} numbers")
    return kind.of_numbers([int(text) for text in texts], earlier)
