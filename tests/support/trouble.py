"""Everything that can go wrong, one after another by a seed, while a pair is at work."""

import itertools
import random
import shutil
import socket
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tests.support import hostile, shifted
from tests.support.commands import run_here
from tests.support.postgresql import Server
from tests.support.processes import Processes
from tests.support.proxy import Proxy
from tests.support.small_disk import SmallDisk
from tests.support.sudden_death import Reaper

HOUR = 3600
STRANGER = "127.0.0.2"
"""Whom no proxy speaks for: what strangers hold is theirs alone."""
_CONNECTIONS = 600
_OBJECT = "?" * 32
"""The name of an object that is whole."""


class Trouble(Reaper):
    """Lets one thing after another go wrong, each for a moment.

    Args:
        services: The services.
        names: Those that die.
        proxy: Between the leader and the helper.
        clocks: The files that say how far ahead a party's clock is.
        disk: Where the stores are, if on a disk that can be filled.
        servers: The stores' servers, if they have any.
        objects: The folder where reports wait, if they do not wait in the leader's store.
        seed: Decides what, when and for how long.
    """

    def __init__(
        self,
        services: Processes,
        names: tuple[str, ...],
        proxy: Proxy,
        clocks: Mapping[str, Path],
        disk: SmallDisk | None,
        servers: Mapping[str, Server],
        objects: Path | None,
        seed: int,
    ) -> None:
        super().__init__(services, names, (0.2, 1.0), seed)
        self._proxy = proxy
        self._clocks = clocks
        self._disk = disk
        self._servers = servers
        self._objects = objects
        self._faults: Mapping[str, Callable[[], object]] = {
            "deaths": self._die,
            "helpers away": self._lose_the_helper,
            "answers lost": self._lose_answers,
            "clocks jumped": self._jump,
            "bursts of strangers": self._attack,
            **({"disks filled": self._fill} if disk else {}),
            **({"objects damaged": self._damage_objects} if objects else {}),
            **(
                {"database servers killed": self._kill_a_server}
                if servers
                else {"stores damaged": self._damage_a_store}
            ),
        }

    def _next(self) -> str:
        fewest = min(self.kills[name] for name in self._faults)
        return self._random.choice([each for each in self._faults if self.kills[each] == fewest])

    def _strike(self, name: str) -> None:
        self._faults[name]()

    @property
    def counts(self) -> Counter[str]:
        """How often each has happened."""
        return self.kills

    def _moment(self) -> None:
        time.sleep(self._random.uniform(0.5, 3.0))

    def _die(self) -> None:
        super()._strike(self._random.choice(self._names))

    def _lose_the_helper(self) -> None:
        self._proxy.close()
        self._moment()
        self._proxy.reopen()

    def _lose_answers(self) -> None:
        self._proxy.deafen()
        self._moment()
        self._proxy.undeafen()

    def _jump(self) -> None:
        clock = self._clocks[self._random.choice(sorted(self._clocks))]
        shifted.jump(clock, self._random.choice((HOUR, -HOUR)))
        self._moment()
        shifted.jump(clock, 0)

    def _fill(self) -> None:
        assert self._disk is not None
        self._disk.fill()
        self._moment()
        self._disk.make_room()

    def _kill_a_server(self) -> None:
        server = self._servers[self._random.choice(sorted(self._servers))]
        server.kill()
        self._moment()
        server.start()

    def _damage_a_store(self) -> None:
        """Change a byte in the file of a party that has died, and bring it back from a backup.

        As the documents say it: nothing that came before the backup is lost, which is all there is.
        """
        party = self._random.choice(self._names)
        config = self._services.configs[party]
        store = self._services.store_path(party)
        backup = self._services.folder / f"{party}.backup"
        self._services.kill(party)
        self._services.prio("backup", "--config", config, backup)
        change_a_byte(store, self._random)
        damaged = self._services.folder / f"{party}.damaged"
        shutil.copyfile(store, damaged)
        # Most bytes hold ciphertext or nothing, and SQLite notices no change of these.
        done = run_here("backup", "--check", "--config", config, damaged)
        assert done.returncode in (0, 2), done
        assert "Traceback" not in done.stderr, done
        for suffix in ("-wal", "-shm"):
            store.with_name(f"{store.name}{suffix}").unlink(missing_ok=True)
        shutil.copyfile(backup, store)
        for file in (backup, damaged):
            file.unlink()
        self._services.start(party)

    def _damage_objects(self) -> None:
        """For a moment, change a byte of each new object as it comes; then put all right again."""
        assert self._objects is not None
        before, whole = set(self._objects.glob(_OBJECT)), dict[Path, bytes]()
        until = time.monotonic() + self._random.uniform(0.5, 3.0)
        draft = self._objects / "draft"
        while time.monotonic() < until:
            for file in {*self._objects.glob(_OBJECT)} - before - whole.keys():
                whole[file] = file.read_bytes()
                draft.write_bytes(whole[file])
                change_a_byte(draft, self._random)
                draft.rename(file)
            time.sleep(0.005)
        for file, content in whole.items():
            if file.exists():  # otherwise nobody needs it any more
                draft.write_bytes(content)
                draft.rename(file)

    def _attack(self) -> None:
        """Hold more connections than there are slots, begin requests, and ask again."""
        url = f"{self._services.urls['leader']}hpke_config"
        parts = urlsplit(url)
        beginnings = itertools.cycle([*hostile.slow_beginnings(url), _whole(url)])
        held = []
        until = time.monotonic() + self._random.uniform(1.0, 3.0)
        for beginning in itertools.islice(beginnings, _CONNECTIONS):
            if time.monotonic() > until:
                break
            with suppress(OSError):
                place = (parts.hostname or "", parts.port or 0)
                held.append(socket.create_connection(place, 1, source_address=(STRANGER, 0)))
                held[-1].sendall(beginning)
        while time.monotonic() < until:
            for each in held:
                with suppress(OSError):
                    each.sendall(_whole(url))
            time.sleep(0.05)
        for each in held:
            each.close()


def change_a_byte(file: Path, choose: random.Random) -> None:
    """Change one byte of a file."""
    with file.open("r+b") as opened:
        place = choose.randrange(file.stat().st_size)
        opened.seek(place)
        (byte,) = opened.read(1)
        opened.seek(place)
        opened.write(bytes([byte ^ choose.randrange(1, 256)]))


def _whole(url: str) -> bytes:
    return hostile.head("GET", url) + b"\r\n"
