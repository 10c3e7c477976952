"""Each file of each party, broken in each way: what a start says, and what comes out then.

A party whose file is broken either does not start, with exit status 2 and one line that names the
file; or it runs, and `prio status` names it; or the file is healed or was not needed (`HARMLESS`).
No result is ever wrong.
"""

import dataclasses
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from anyio import to_thread

from aggregator.cli.collector import collector
from aggregator.cli.faults import BAD_INPUT, status_of
from aggregator.cli.service import services
from aggregator.dap.ids import encode_base64url
from aggregator.errors import AggregatorError
from aggregator.service.config import CollectorSettings, LeaderSettings, read_settings
from aggregator.service.storage.engine.store_check import StoreCheck
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.pair import LEASE_SECONDS, NOW, Pair
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import make_task

pytestmark = pytest.mark.slow

HOUR = 3600
MEASUREMENTS, COUNTS = [0, 1, 1, 3, 3, 3], (1, 2, 0, 3)
ROUNDS = 4
KEYS = {"leader": bytes(32), "helper": b"\x01" * 32, "collector": b"\x02" * 32}
AGGREGATORS = ("sqlite", "sqlite.keys", "sqlite.journal", "key", "key.store")
NAMES = {
    "leader": AGGREGATORS,
    "helper": AGGREGATORS,
    "collector": ("sqlite", "key", "key.store", "token"),
}
FILES = [f"{party}.{name}" for party, names in NAMES.items() for name in names]


@dataclasses.dataclass(frozen=True)
class Made:
    """Folders with the files of three parties: as they are, and as they were before."""

    now: Path
    before: Path


def one_byte(path: Path) -> None:
    """Change a byte: of the header of a store, of the last key, else in the middle."""
    content = bytearray(path.read_bytes())
    content[{".sqlite": 20, ".keys": -1}.get(path.suffix, len(content) // 2)] ^= 0x55
    path.write_bytes(content)


def other_kind(make: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return what puts something else in the place of a file."""

    def put(path: Path) -> None:
        path.unlink()
        make(path)

    return put


def linked(path: Path) -> None:
    path.symlink_to(path.rename(path.with_name(f"away-{path.name}")))


WAYS: dict[str, Callable[[Path], object]] = {
    "one byte": one_byte,
    "its head alone": lambda path: path.write_bytes(path.read_bytes()[:16]),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path: path.write_bytes(b""),
    "gone": Path.unlink,
    "a directory": other_kind(Path.mkdir),
    "a dangling link": other_kind(lambda path: path.symlink_to(path.parent / "disk" / path.name)),
    "a FIFO": other_kind(lambda path: os.mkfifo(path, 0o600)),
    "noise": lambda path: path.write_bytes(SeededEntropy(b"noise").bytes(path.stat().st_size)),
    "a link": linked,
}
OTHERS = ("another party's", "an old one")
HARMLESS = {
    ("sqlite", "an old one"),  # of a collector; an aggregator's is older than its keys
    *(("sqlite.journal", way) for way in ("half", "an old one")),  # its end is written again
    ("key", "an old one"),  # there never was another
    *(("token", way) for way in ("one byte", "half", "gone", *OTHERS)),  # whoever asks gets 401
    *((name, "a link") for name in (*AGGREGATORS, "token")),
    *(("key.store", way) for way in (*WAYS, *OTHERS)),  # the store itself says that it is there
}


async def pair_in(folder: Path) -> Pair:
    """Open both aggregators of a folder, each under its own store key."""
    pair = Pair(folder, make_task())
    pair.helper.database.close()
    pair.helper.store_keys = [KEYS["helper"]]
    pair.helper.start()
    return pair


@pytest.fixture(scope="module")
async def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return parties with two released units, and one that is aggregated and not collected.

    They were before the second.
    """
    now = tmp_path_factory.mktemp("parties")
    made = Made(now, now.with_name(f"{now.name}-before"))
    for party, key in KEYS.items():
        file = now / f"{party}.key"
        file.write_text(f"{encode_base64url(key)}\n")
        file.chmod(0o600)
        own = (
            'keys.token_file = "collector.token"'
            if party == "collector"
            else "tuning.hpke_rotation_seconds = 0"
        )
        service_file(now, party, f"{own}\n")
    pair = await pair_in(now)
    await pair.provision()
    for unit in range(3):
        await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
        if unit == 2:
            await pair.work_until_idle()
        else:
            assert (await pair.collect(pair.interval(pair.clock.now()))).values == COUNTS
        pair.clock.advance(HOUR)
        if unit == 0:
            pair.leader.restart()
            pair.helper.restart()  # empties the logs into the files
            for party in KEYS:
                async with started(now, party):
                    pass
            await to_thread.run_sync(shutil.copytree, now, made.before)
    await pair.close()
    return made


@asynccontextmanager
async def started(folder: Path, party: str) -> AsyncIterator[None]:
    """Build the party's service as `serve` does, for the block; raise what it raises."""
    settings = read_settings(folder / f"{party}.toml")
    check = StoreCheck(settings.database_url)
    check.before_serving()
    if isinstance(settings, CollectorSettings):
        opening = collector._service(settings, check)
    elif isinstance(settings, LeaderSettings):
        opening = services._leader(settings, serve=True, work=True, check=check)
    else:
        opening = services._helper(settings, serve=True, work=True, check=check)
    async with opening:
        yield


@contextmanager
def not_for_ever() -> Iterator[None]:
    """Fail if the block waits for somebody at the other end of a FIFO."""

    def fail(*_: object) -> None:
        raise AssertionError("it waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(int(PATIENCE_SECONDS))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def broken(made: Made, folder: Path, name: str, way: str) -> Path:
    """Copy the parties to a folder, and break a file there; return its path."""
    shutil.copytree(made.now, folder)
    path = folder / name
    party, _, kind = name.partition(".")
    if way == "an old one":
        shutil.copyfile(made.before / name, path)
    elif way == "another party's":
        theirs = made.now / f"{'leader' if party == 'helper' else 'helper'}.{kind}"
        shutil.copyfile(theirs if theirs.exists() else made.now / "leader.key", path)
    else:
        WAYS[way](path)
    return path


async def results(folder: Path) -> list[tuple[int, ...]]:
    """Return what comes out for the second unit, which was released, and for the third."""
    pair, found = await pair_in(folder), []
    pair.clock.advance(3 * HOUR)
    for unit in (1, 2):
        interval = pair.interval(NOW + unit * HOUR)
        asked = await pair.ask(interval)
        if asked.status != 201:
            continue
        for _ in range(ROUNDS):
            await pair.work()
            pair.clock.advance(LEASE_SECONDS + 1)
        answer = await pair.poll(asked.headers["location"])
        if answer.status == 200 and answer.body and not answer.problem:
            found.append(tuple(pair.open(answer.body, interval).values))
    await pair.close()
    return found


@pytest.mark.parametrize("way", [*WAYS, *OTHERS])
@pytest.mark.parametrize("name", FILES)
async def test_a_broken_file_is_named_or_healed_and_no_result_is_wrong(
    made: Made, tmp_path: Path, name: str, way: str
) -> None:
    folder, (party, _, kind) = tmp_path / "parties", name.partition(".")
    path = await to_thread.run_sync(broken, made, folder, name, way)
    with not_for_ever():
        refusal = None
        status = ("status", "--config", folder / f"{party}.toml")
        try:
            async with started(folder, party):
                said = await to_thread.run_sync(run_here, *status)
        except (AggregatorError, OSError) as error:
            refusal = error
        if refusal is not None:
            assert status_of(refusal) == BAD_INPUT, refusal
            assert str(path) in str(refusal)
            assert "\n" not in str(refusal)
            return
        if said.returncode == 0:
            assert (kind, way) in HARMLESS, said.stdout
        else:
            assert said.returncode == 1, said
            assert str(path) in said.stdout
        if party != "collector":
            found = await results(folder)
            assert set(found) <= {COUNTS}
            assert found or way != "a link", "a sound pair has a result"
