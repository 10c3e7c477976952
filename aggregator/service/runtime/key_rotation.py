"""Changes an aggregator's HPKE key by age, and destroys old private keys.

Each configured suite has one advertised key; when a suite is no longer configured, its key is
retired. A key is advertised, then retired, then destroyed: once nothing needs it any more
(`needed_for`), whatever a clock that was set wrong says (`_wrong_dates`, `_settled`). What was
sealed to a destroyed key can never be opened again, by anybody.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfig, generate_keypair
from aggregator.dap.hpke_suites import REQUIRED, Suite
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.dap.times import DAY
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.hpke_rotation import UPLOAD_SECONDS, HpkeRotation
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.storage.batches.sums import is_window_open
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.jobs.leases import LATE_SECONDS
from aggregator.service.storage.reports.reports import received_between
from aggregator.service.storage.tasks.hpke_keys import (
    HpkeKey,
    StoredConfig,
    date_back,
    dated_ahead,
    destroy_hpke_key,
    list_hpke_configs,
    next_config_id,
    put_hpke_key,
    retire_hpke_key,
)
from aggregator.service.storage.tasks.tasks import list_tasks
from aggregator.service.telemetry.lines import log

CLOCK_SECONDS = DAY
"""How far a clock may have been set back after it dated a key and before it dated its reports."""

PATIENCE_SECONDS = DAY
"""How long dates must stay in the future, while the service runs, before they are corrected."""

SETTLING_SECONDS = 3600
"""How long a key must be unneeded, while the service runs, before it is destroyed."""

_FOR_EVER = 2**62


def new_key(tx: Transaction, entropy: Entropy, suite: Suite = REQUIRED) -> int:
    """Make a key pair, to be advertised before older ones of its suite; return its id.

    Raises:
        Conflict: All ids are in use.
    """
    made = generate_keypair(next_config_id(tx), entropy, suite)
    put_hpke_key(tx, HpkeKey(made.config.id, encode(made.config), made.private_key))
    return made.config.id


def newest_keys(keys: Sequence[StoredConfig], rotation: HpkeRotation) -> dict[Suite, StoredConfig]:
    """Return the key advertised first of each configured suite, unless the suite has none."""
    found: dict[Suite, StoredConfig] = {}
    for suite in rotation.suites:
        for key in keys:  # newest first
            if key.retired_at is None and _ids_of(key) == suite.ids:
                found.setdefault(suite, key)
    return found


def advertised_keys(keys: Sequence[StoredConfig], rotation: HpkeRotation) -> list[HpkeConfig]:
    """Return what we advertise, in the order of the configured suites, other suites last."""
    ids = [suite.ids for suite in rotation.suites]
    found = [decode(HpkeConfig, key.config) for key in keys if key.retired_at is None]
    return sorted(
        found,
        key=lambda each: ids.index(each.suite_ids) if each.suite_ids in ids else len(ids),
    )


def _ids_of(key: StoredConfig) -> tuple[int, int, int]:
    return decode(HpkeConfig, key.config).suite_ids


def needed_for(
    tx: Transaction, role: Role, rotation: HpkeRotation, key: StoredConfig
) -> str | None:
    """Return what a private key is still needed for; None if it can be destroyed.

    It is needed by reports that were accepted while uploads could use it. So a held report, or a
    window that is never collected, keeps the keys of its own time, but not all later ones.
    """
    if key.retired_at is None:
        return "advertised"
    last_upload = rotation.taken_until(key.retired_at) + UPLOAD_SECONDS
    if tx.now < last_upload:
        return "clients that have not heard of the next key"
    if role is Role.LEADER:
        since = key.created_at - CLOCK_SECONDS
        # What was stored while the clock was ahead may need any key.
        is_needed = received_between(tx, since, last_upload) or received_between(
            tx, tx.now + CLOCK_SECONDS, _FOR_EVER
        )
        return "reports that are not aggregated" if is_needed else None
    # The helper does not see what waits at the leader, and how long it has waited.
    if tx.now < last_upload + rotation.wait_seconds:
        return "reports that may wait at the leader"
    since = max(0, key.created_at - rotation.wait_seconds)
    return next(_open_windows(tx, since, last_upload), None)


def _open_windows(tx: Transaction, since: int, until: int) -> Iterator[str]:
    """Yield a reason for each task with an open window that may have reports of a time span."""
    for stored in list_tasks(tx):
        if stored.ended_at is not None:
            continue
        try:
            task = task_from_toml(stored.definition)
        except ParameterError:
            yield f"task {TaskId(stored.task_id)}, which cannot be read"
            continue
        if is_window_open(tx, stored.task_id, task.time(since), task.time(until)):
            yield f"open windows of task {task.task_id}"


class KeyRotation:
    """Changes and destroys the keys of one aggregator as time passes."""

    def __init__(
        self,
        role: Role,
        database: Database,
        entropy: Entropy,
        rotation: HpkeRotation,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Look after the keys in `database`; nobody can set the clock `monotonic`."""
        self._role = role
        self._database = database
        self._entropy = entropy
        self._rotation = rotation
        self._monotonic = monotonic
        self._ahead_since: float | None = None
        self._unneeded_since: dict[int, float] = {}

    async def run_once(self) -> int:
        """Do what is due now; return how many keys were made, retired or destroyed."""
        due = await self._database.read("hpke keys that are due", self._due)
        settled = self._settled(due.unneeded)
        waited = self._waited(await self._database.read("hpke keys ahead", dated_ahead))
        wrong = await self._database.read("wrong dates", lambda tx: self._wrong_dates(tx, waited))
        if not (due.suites or due.retiring or settled or wrong):
            return 0
        try:
            made, retired, destroyed = await self._database.run(
                "rotate hpke keys", lambda tx: self._rotate(tx, waited, settled)
            )
        except Conflict as error:
            log.error("no hpke key could be made", reason=str(error))
            return 0
        for config_id in made:
            log.info("hpke key made", config_id=config_id)
        for config_id in retired:
            log.info("hpke key of a suite that is not set retired", config_id=config_id)
        for config_id in destroyed:
            log.info("hpke key destroyed", config_id=config_id)
        return len(made) + len(retired) + len(destroyed)

    def _settled(self, unneeded: list[int]) -> set[int]:
        """Return those of the keys that have been unneeded for long enough to be destroyed.

        While the clock is ahead, the helper seems to need none of the keys that it keeps for
        reports still waiting at the leader. So the monotonic clock counts here.
        """
        now = self._monotonic()
        self._unneeded_since = {key: self._unneeded_since.get(key, now) for key in unneeded}
        since = self._unneeded_since.items()
        return {key for key, moment in since if now - moment >= SETTLING_SECONDS}

    def _waited(self, ahead: list[int]) -> float:
        """Return how long keys have been dated ahead, in seconds of the monotonic clock."""
        if not ahead:
            self._ahead_since = None
            return 0
        if self._ahead_since is None:
            self._ahead_since = self._monotonic()
            log.warning("hpke keys are dated ahead of the clock", config_ids=ahead)
        return self._monotonic() - self._ahead_since

    def _wrong_dates(self, tx: Transaction, waited: float) -> list[bool]:
        """Return which dates are to be corrected: False for creation, True for retirement.

        A date in the future was set by a clock that was ahead for a moment, or is right, and our
        clock is behind now. We cannot tell which, so it must have stayed in the future for long.
        """
        found = []
        if waited >= PATIENCE_SECONDS and dated_ahead(tx, retired=False):
            found.append(False)
        # A key dated as retired too early would be destroyed while reports still need it. So for
        # that date nothing stored may be dated in the future either, and the helper waits longer.
        at_leader = self._rotation.wait_seconds if self._role is Role.HELPER else 0
        if (
            waited >= PATIENCE_SECONDS + at_leader
            and dated_ahead(tx, retired=True)
            and not self._has_stored_ahead(tx)
        ):
            found.append(True)
        return found

    def _has_stored_ahead(self, tx: Transaction) -> bool:
        """Return whether stored reports are dated in the future: our clock may be behind."""
        if self._role is Role.LEADER:
            return received_between(tx, tx.now + LATE_SECONDS, _FOR_EVER)
        return any(_open_windows(tx, tx.now + CLOCK_SECONDS, _FOR_EVER))

    def _due(self, tx: Transaction) -> "_Due":
        """Return which suites need a new key, and which keys are to be retired or destroyed."""
        keys = list_hpke_configs(tx)
        newest = newest_keys(keys, self._rotation)
        ids = [suite.ids for suite in self._rotation.suites]
        return _Due(
            [
                suite
                for suite in self._rotation.suites
                if suite not in newest or self._rotation.is_due(newest[suite].created_at, tx.now)
            ],
            [key.config_id for key in keys if key.retired_at is None and _ids_of(key) not in ids],
            [
                key.config_id
                for key in keys
                if needed_for(tx, self._role, self._rotation, key) is None
            ],
        )

    def _rotate(
        self, tx: Transaction, waited: float, settled: set[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Do what is due; return which keys were made, retired for their suite, and destroyed.

        Args:
            tx: The transaction.
            waited: How long keys have been dated ahead.
            settled: Keys that may be destroyed, unless they are needed by now.
        """
        for retired in self._wrong_dates(tx, waited):
            dated = date_back(tx, retired=retired)
            log.warning("hpke keys were dated by a clock ahead", config_ids=dated)
        due = self._due(tx)  # once more: another process may have done it
        destroyed = [config_id for config_id in due.unneeded if config_id in settled]
        for config_id in destroyed:
            destroy_hpke_key(tx, config_id)  # first, since a new key needs a free id
        ids = [suite.ids for suite in due.suites]
        before = [key for key in list_hpke_configs(tx) if key.retired_at is None]
        made = [new_key(tx, self._entropy, suite) for suite in due.suites]
        for key in before:
            if key.config_id in due.retiring or _ids_of(key) in ids:
                retire_hpke_key(tx, key.config_id)
        return made, due.retiring, destroyed


class _Due(NamedTuple):
    """What is to be done.

    Attributes:
        suites: Suites that need a new key.
        retiring: Advertised keys whose suite is not configured.
        unneeded: Keys that nothing needs any more.
    """

    suites: list[Suite]
    retiring: list[int]
    unneeded: list[int]
