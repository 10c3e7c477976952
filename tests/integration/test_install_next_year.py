"""The locks install what they name from an index that offers a newer version of everything.

The index is on loopback. It has the wheels that the locks name, under their names and with what
they require, but nothing else in them; and beside each a made-up one of version 9999. The locks are
ours but for the hashes, which are those of these wheels: gigabytes would show no more. That the
real wheels are installed so shows the environment of this test, which `make` has made.

The commands are those of the Makefile and the Dockerfile; pip is the oldest that must do, for the
lock that has all pins of the others, and a new one.
"""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from packaging.utils import parse_wheel_filename

from tests.support.locks import LOCKS, ROOT, Lock, Package, Pin, packages, read

pytestmark = pytest.mark.slow

# What Python 3.11.0, 3.12.0 and so on brought: an older pip does not run on them.
BROUGHT = {11: "22.3", 12: "23.2.1", 13: "24.2"}
OLDEST_PIP = BROUGHT.get(sys.version_info.minor, "25.2")
NEW_PIP = "26.3"
NEWER = "9999"

RUNTIME, AGGREGATOR, IMAGE, EVERYTHING = LOCKS

# How `make` installed until a newer version of one package stopped it.
RESOLVING = ["install", "--quiet", "--require-hashes", "--requirement"]

NO_ANSWER = re.compile("ConnectionError|ConnectTimeout|ReadTimeout|ProxyError|name resolution")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("next-year")


@pytest.fixture(scope="module")
def pips(folder: Path) -> dict[str, Path]:
    """Both versions of pip, each run from its wheel."""
    for version in (OLDEST_PIP, NEW_PIP):
        downloaded(folder / "pip", f"pip=={version}")
    found = {str(parse_wheel_filename(path.name)[1]): path for path in (folder / "pip").iterdir()}
    return {version: path / "pip" for version, path in found.items()}


@pytest.fixture(scope="module")
def locks(folder: Path) -> Path:
    """The folder of the locks, each with the hashes of the wheels that the index offers."""
    hashes = {
        pin: [made_up(folder / "index" / "simple", wheel, pin, package) for wheel in package.wheels]
        for pin, package in packages().items()
    }
    found = folder / "locks"
    found.mkdir()
    for lock in LOCKS:
        text = lock.path.read_text(encoding="utf-8")
        for entry in re.findall(r"^\S+==(?:.*\n)(?:    .*\n)+", text, re.MULTILINE):
            (pin,) = read(entry)
            if str(pin) in hashes:  # of a pin for Windows nothing is known
                first, _, _ = entry.partition("\n")
                lines = [first, *(f"    --hash=sha256:{each} \\" for each in hashes[str(pin)])]
                text = text.replace(entry, "\n".join(lines).removesuffix(" \\") + "\n")
        (found / lock.name).write_text(text, encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def index(folder: Path, locks: Path) -> Iterator[str]:  # noqa: ARG001  makes their wheels
    """The address of an index of every locked wheel, and a newer version of each."""
    wheels = folder / "index"
    for page in (wheels / "simple").iterdir():
        stem = page.name.replace("-", "_")
        newest = f"{page.name}=={NEWER}"
        made_up(page.parent, f"{stem}-{NEWER}-py3-none-any.whl", newest, Package("", (), {}))
    handler = partial(Quiet, directory=str(wheels))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/simple/"
        server.shutdown()
        thread.join()


class Quiet(SimpleHTTPRequestHandler):
    """A folder's listing is all that pip needs of an index."""

    def log_message(self, *_: object) -> None:
        pass


def downloaded(folder: Path, *what: str) -> None:
    """What pip downloads from the index that it is configured with."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    asked = subprocess.run(  # noqa: S603  pip, told what to do by this test
        [*pip, "--only-binary", ":all:", "--dest", str(folder), *what],
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode and NO_ANSWER.search(asked.stderr):
        pytest.skip(f"the package index does not answer: {asked.stderr.splitlines()[-1]}")
    assert asked.returncode == 0, asked.stderr


def made_up(simple: Path, wheel: str, pin: str, package: Package) -> str:
    """Make a wheel of nothing but what a package says of itself; return its hash."""
    name, _, version = pin.partition("==")
    said = [("Metadata-Version", "2.1"), ("Name", name), ("Version", version)]
    said += [("Requires-Python", package.python)] if package.python else []
    said += [("Requires-Dist", each) for each in package.requires]
    form = [("Wheel-Version", "1.0"), ("Root-Is-Purelib", "true")]
    form += [("Tag", str(tag)) for tag in sorted(parse_wheel_filename(wheel)[3], key=str)]
    page = simple / name
    page.mkdir(parents=True, exist_ok=True)
    info = f"{'-'.join(wheel.split('-')[:2])}.dist-info"
    with zipfile.ZipFile(page / wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", headers(said))
        archive.writestr(f"{info}/WHEEL", headers(form))
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256((page / wheel).read_bytes()).hexdigest()


def headers(of: list[tuple[str, str]]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in of)


def environment(index: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    return kept | {
        "NO_PROXY": "127.0.0.1",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": index,
        "PIP_NO_CACHE_DIR": "1",
    }


def command_for(lock: Lock) -> list[str]:
    """What pip is told by the Makefile, or for the image by the Dockerfile."""
    if lock in {AGGREGATOR, IMAGE}:
        said = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
        said = said.replace("${LOCK}", lock.name)
    else:
        stamp = ".runtime" if lock is RUNTIME else ".complete"
        printed = ["make", "--dry-run", "--always-make", "VENV=venv", f"venv/{stamp}"]
        said = subprocess.run(  # noqa: S603  what make would do
            printed, cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    (line,) = (line for line in said.splitlines() if line.endswith(f"--requirement {lock.name}"))
    words = shlex.split(line)
    return words[words.index("install") :]


def installed(venv_folder: Path) -> set[str]:
    """Names and versions, as folders of metadata have them."""
    (packages,) = venv_folder.glob("lib/python3.*/site-packages")
    return {path.name.removesuffix(".dist-info") for path in packages.glob("*.dist-info")}


def named(pins: list[Pin]) -> set[str]:
    here = [pin for pin in pins if pin.marker is None or pin.marker.evaluate()]
    return {f"{pin.name.replace('-', '_')}-{pin.version}" for pin in here}


def normalized(names: set[str]) -> set[str]:
    return {re.sub(r"[-_.]+(?=.*-)", "_", name).lower() for name in names}


@pytest.mark.parametrize(
    ("lock", "version"),
    [
        (RUNTIME, NEW_PIP),
        (AGGREGATOR, NEW_PIP),
        (EVERYTHING, OLDEST_PIP),
    ],  # which names the others' too
    ids=lambda value: getattr(value, "name", value),
)
def test_a_lock_installs_what_it_names_whatever_else_the_index_offers(
    index: str, locks: Path, pips: dict[str, Path], lock: Lock, version: str
) -> None:
    with tempfile.TemporaryDirectory(prefix="prio-test-") as folder:
        venv.create(folder, symlinks=True)
        assert installed(Path(folder)) == set()
        python = f"{folder}/bin/python"
        for command in (command_for(lock), ["check"]):
            asked = subprocess.run(  # noqa: S603  pip, told what to do by this test
                [python, pips[version], *command],
                cwd=locks,
                env=environment(index),
                capture_output=True,
                text=True,
                check=False,
            )
            assert asked.returncode == 0, asked.stdout + asked.stderr
        pins = read(lock.path.read_text(encoding="utf-8"))
        assert normalized(installed(Path(folder))) == normalized(named(pins))


@pytest.mark.skipif(
    sys.version_info >= (3, 13),
    reason=f"pip {OLDEST_PIP}, which came with this Python, is not",
)
def test_a_resolver_would_be_stopped_by_a_newer_version(
    index: str, locks: Path, pips: dict[str, Path], folder: Path
) -> None:
    """The same index refuses what `make` did before, so the test above can fail."""
    few = folder / "few.lock"
    text = (locks / EVERYTHING.name).read_text(encoding="utf-8")
    wanted = "pytest-cov|coverage|iniconfig|packaging|pluggy|pygments|pytest"
    few.write_text("".join(re.findall(rf"^(?:{wanted})==.*\n(?:    .*\n)+", text, re.MULTILINE)))
    venv.create(folder / "refused", symlinks=True)
    asked = subprocess.run(  # noqa: S603  pip, told what to do by this test
        [folder / "refused/bin/python", pips[OLDEST_PIP], *RESOLVING, few],
        env=environment(index),
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode != 0
    assert "coverage" in asked.stderr
    assert "versions pinned with ==" in asked.stderr
    assert installed(folder / "refused") == set()
