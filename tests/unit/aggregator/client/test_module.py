import gzip
import json
import re

from aggregator import __version__
from aggregator.client.module import ORDER, file_of, integrity_of, joined_module

MOST_BYTES = 17_000
"""Compressed by gzip; brotli, which most servers speak, makes a tenth less of it."""

_IMPORTED = re.compile(r"from '\./(\w+)\.js'")
_EXPORT = re.compile(r"^export ", re.MULTILINE)
_TYPED = re.compile(r"^export (?:class|function|const) (\w+)", re.MULTILINE)
_DECLARED = re.compile(r"^(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)


def test_a_file_is_joined_after_those_that_it_imports() -> None:
    for place, name in enumerate(ORDER):
        assert set(_IMPORTED.findall(file_of(f"{name}.js"))) <= set(ORDER[:place])


def test_no_two_files_declare_one_name_since_all_are_in_one_scope() -> None:
    declared = [
        name for each in ORDER for name in _DECLARED.findall(_EXPORT.sub("", file_of(f"{each}.js")))
    ]
    assert len(declared) > 50
    assert len(declared) == len(set(declared))


def test_the_joined_module_is_small_needs_nothing_else_and_is_the_same_each_time() -> None:
    text = joined_module()
    assert len(gzip.compress(text.encode(), 9)) < MOST_BYTES
    assert "import " not in text
    assert "/**" not in text.removeprefix("/**")
    assert text == joined_module()
    assert integrity_of("") == (
        "sha384-OLBgp1GsljhM2TJ+sbHjaiH9txEUvgdDTAzHv2P24donTt6/529l+9Ua0vFImLlb"
    )


def test_every_line_of_the_joined_module_is_one_of_the_source() -> None:
    source = "\n".join(file_of(f"{name}.js") for name in ORDER)
    for line in joined_module().splitlines()[1:-1]:
        assert line in source


def test_the_types_name_all_that_the_module_exports() -> None:
    exported = re.findall(r"\w+", " ".join(re.findall(r"\{([^}]*)\}", file_of("index.js"))))
    declared = re.findall(
        r"^export (?:class|function|const) (\w+)", file_of("index.d.ts"), re.MULTILINE
    )
    assert sorted(exported) == sorted(declared)


def test_the_package_for_npm_is_of_this_version_and_needs_no_other() -> None:
    package = json.loads(file_of("package.json"))
    assert package["version"] == __version__
    assert "dependencies" not in package


def test_the_module_asks_for_no_randomness_but_the_systems() -> None:
    source = "\n".join(file_of(f"{name}.js") for name in ORDER)
    assert "Math.random" not in source
    assert source.count("getRandomValues") == 1
