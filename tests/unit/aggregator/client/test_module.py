import gzip
import json
import re
from collections.abc import Sequence
from fractions import Fraction

import pytest

from aggregator import __version__
from aggregator.client.module import (
    _COMMENT,
    _LITERAL,
    _TRAILING,
    ASKING_ORDER,
    LINKS_ORDER,
    ORDER,
    SIGNED_ORDER,
    SURVEY_ORDER,
    TEXT_ORDER,
    file_of,
    for_page,
    integrity_of,
    joined_links,
    joined_module,
    joined_signed,
    joined_survey,
    joined_text,
    without_spaces,
)
from aggregator.dap.profile import PROFILES
from aggregator.dp.by_section import split
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.policy import MECHANISMS
from aggregator.errors import ParameterError
from tests.support.mechanisms import example_of

MOST_BYTES = 16_900
"""Compressed by gzip. By brotli, which browsers ask for, it is below 15 kB: see `tests/kat`."""

MOST_BYTES_OF_TEXT = 7500
MOST_BYTES_OF_SURVEY = 10_400
MOST_BYTES_OF_LINKS = 1_600
MOST_BYTES_OF_SIGNED = 4_200

ALL = tuple(dict.fromkeys((*ORDER, *SURVEY_ORDER, *TEXT_ORDER, *LINKS_ORDER, *SIGNED_ORDER)))

_IMPORTED = re.compile(r"from '\./(\w+)\.js'")
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_DECLARED = re.compile(r"^(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)


def test_a_file_is_joined_after_those_that_it_imports() -> None:
    page = (*ASKING_ORDER, *TEXT_ORDER)
    for beside in (TEXT_ORDER, SURVEY_ORDER, LINKS_ORDER, SIGNED_ORDER, page):
        both = ORDER + beside
        for place, name in enumerate(both):
            assert set(_IMPORTED.findall(file_of(f"{name}.js"))) <= set(both[:place])


def test_no_two_files_declare_one_name_since_all_are_in_one_scope() -> None:
    declared = [
        name for each in ALL for name in _DECLARED.findall(_EXPORT.sub("", file_of(f"{each}.js")))
    ]
    assert len(declared) > 50
    assert len(declared) == len(set(declared))


@pytest.mark.parametrize("name", ALL)
def test_a_file_imports_the_classes_and_constants_of_others_that_it_uses(name: str) -> None:
    """Joined files would have them anyway, and so hide what is missing in the package for npm."""
    code = "".join(_LITERAL.split(_TRAILING.sub("", _COMMENT.sub("", file_of(f"{name}.js"))))[::2])
    others = {
        each
        for other in ALL
        for each in _DECLARED.findall(_EXPORT.sub("", file_of(f"{other}.js")))
        if each[0].isupper() and other != name
    }
    imports = re.compile(r"^import \{([^}]*)\}[^;]*;", re.MULTILINE)
    used = set(re.findall(r"(?<![.\w])[A-Z]\w*", imports.sub("", code)))
    imported = set(re.findall(r"\w+", " ".join(imports.findall(code))))
    assert used & others <= imported


def test_the_joined_module_is_small_needs_nothing_else_and_is_the_same_each_time() -> None:
    text = joined_module()
    assert len(gzip.compress(text.encode(), 9)) < MOST_BYTES
    assert "import " not in text
    assert "/**" not in text.removeprefix("/**")
    assert text == joined_module()
    assert integrity_of("") == (
        "sha384-OLBgp1GsljhM2TJ+sbHjaiH9txEUvgdDTAzHv2P24donTt6/529l+9Ua0vFImLlb"
    )


@pytest.mark.parametrize(
    ("text", "most"),
    [
        (joined_text(), MOST_BYTES_OF_TEXT),
        (joined_survey(), MOST_BYTES_OF_SURVEY),
        (joined_links(), MOST_BYTES_OF_LINKS),
        (joined_signed(), MOST_BYTES_OF_SIGNED),
    ],
    ids=["text", "survey", "links", "signed"],
)
def test_a_part_is_small_and_needs_only_what_the_module_exports(text: str, most: int) -> None:
    assert len(gzip.compress(text.encode(), 9)) < most
    imported = re.findall(r"^import \{ (.*) \} from '\./prio\.js';$", text, re.MULTILINE)
    assert len(imported) == text.count("import ") == 1
    assert set(imported[0].split(", ")) < set(re.findall(r"\w+", joined_module().splitlines()[-1]))
    assert "/**" not in text.removeprefix("/**")


@pytest.mark.parametrize(
    ("order", "lines"),
    [
        (ORDER, joined_module().splitlines()[1:-1]),
        (TEXT_ORDER, joined_text().splitlines()[2:-1]),
        (SURVEY_ORDER, joined_survey().splitlines()[2:-1]),
        (LINKS_ORDER, joined_links().splitlines()[2:-1]),
        (SIGNED_ORDER, joined_signed().splitlines()[2:-1]),
        (ORDER + ASKING_ORDER, for_page(has_texts=False).splitlines()),
        (
            ORDER + ASKING_ORDER + LINKS_ORDER,
            for_page(has_texts=False, permits=LINKS_ORDER).splitlines(),
        ),
    ],
    ids=["module", "text", "survey", "links", "signed", "page", "page with links"],
)
def test_the_joined_module_is_the_source_but_for_comments_and_white_space(
    order: Sequence[str], lines: Sequence[str]
) -> None:
    source = "".join(_TRAILING.sub("", _COMMENT.sub("", file_of(f"{name}.js"))) for name in order)
    source = _EXPORT.sub("", re.sub(r"^import [^;]*;", "", source, flags=re.MULTILINE))
    assert "".join("".join(lines).split()) == "".join(source.split())


@pytest.mark.parametrize(
    ("source", "tight"),
    [
        ("const a = `${b} = c` + ' = ' - -b;", "const a=`${b} = c` + ' = ' - -b;"),
        ("return (a + b) / [c, +d] / 2 ? e : f;", "return(a+b)/[c,+d]/2?e:f;"),
        ("a = b.replace(/^ | $[/ ) ]/g, '\\' : ');", "a=b.replace(/^ | $[/ ) ]/g,'\\' : ');"),
        ("a = b(/[\"' ]/g, \"it's = \", '\" = ');", "a=b(/[\"' ]/g,\"it's = \",'\" = ');"),
        ("const a = / , /u, b = 1;", "const a= / , /u,b=1;"),
        ("if (a(\n`x\ny`,\nb\n)) {\nc()\nd = '';\n}\ne;\n", "if(a(`x\ny`,b)){c()\nd='';}e;"),
    ],
)
def test_no_string_no_pattern_and_no_sign_loses_its_space(source: str, tight: str) -> None:
    assert without_spaces(source) == tight


@pytest.mark.parametrize("name", ["index", "links", "signed", "survey", "text"])
def test_the_types_name_all_that_the_module_exports(name: str) -> None:
    exported = re.findall(r"\w+", " ".join(re.findall(r"\{([^}]*)\}", file_of(f"{name}.js"))))
    declared = re.findall(
        r"^export (?:class|function|const) (\w+)", file_of(f"{name}.d.ts"), re.MULTILINE
    )
    assert sorted(exported) == sorted(declared)


def test_the_module_and_its_types_know_every_mechanism() -> None:
    table = re.search(
        r"^const MECHANISMS = \{\n(.*?)^\};", file_of("task.js"), re.MULTILINE | re.DOTALL
    )
    union = re.search(r"^  mechanism:([^;]*);", file_of("index.d.ts"), re.MULTILINE)
    splittable = re.search(r"^const SPLIT = \[(.*)\];", file_of("task.js"), re.MULTILINE)
    assert table
    assert union
    assert splittable
    rows = {
        int(code_point): re.findall(r"\w+", row)
        for code_point, row in re.findall(r"(\d+): \[(.*)\]", table[1])
    }
    assert {code_point: {*row} for code_point, row in rows.items()} == {
        code_point: {kind.name, *kind.parameter_names} for code_point, kind in MECHANISMS.items()
    }
    names = [kind.name for kind in MECHANISMS.values()]
    assert [name for name, *_ in rows.values()] == names
    assert re.findall(r"\w+", union[1]) == names
    assert re.findall(r"\w+", splittable[1]) == [
        kind.name for kind in MECHANISMS.values() if _can_be_split(kind)
    ]


def test_the_module_and_its_types_know_every_profile() -> None:
    table = re.search(
        r"^const PROFILES = \{\n(.*?)^\};", file_of("task.js"), re.MULTILINE | re.DOTALL
    )
    union = re.search(r"^  profile\?:([^;]*);", file_of("index.d.ts"), re.MULTILINE)
    assert table
    assert union
    assert re.findall(r"^  '?([\w-]+)'?:", table[1], re.MULTILINE) == [*PROFILES]
    assert re.findall(r"'([\w-]+)'", union[1]) == [*PROFILES]


def _can_be_split(kind: type[Mechanism]) -> bool:
    try:
        split(example_of(kind), (Fraction(1, 2), Fraction(1, 2)))
    except ParameterError:
        return False
    return True


def test_the_package_for_npm_is_of_this_version_and_needs_no_other() -> None:
    package = json.loads(file_of("package.json"))
    assert package["version"] == __version__
    assert "dependencies" not in package


def test_the_module_asks_for_no_randomness_but_the_systems() -> None:
    source = "\n".join(file_of(f"{name}.js") for name in ALL)
    assert "Math.random" not in source
    assert source.count("getRandomValues") == 1


@pytest.mark.parametrize("name", ALL)
def test_where_strings_and_templates_end_is_seen_right_in_each_file(name: str) -> None:
    """What is taken for code and is none would lose its spaces, and a message its meaning."""
    code = _TRAILING.sub("", _COMMENT.sub("", file_of(f"{name}.js")))
    parts = _LITERAL.split(code)
    assert not {"'", '"', "`"} & set("".join(parts[::2]))
    for literal in parts[1::2]:
        # One in another would end where that begins, and indentation is taken from all lines.
        assert literal.count("{") == literal.count("}") or literal[0] != "`"
        assert "\n" not in literal
