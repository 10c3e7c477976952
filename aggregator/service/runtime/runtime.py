"""One aggregator: its database, its tasks and its HPKE keys.

Leader and helper share it. It reads the database anew each time, so that several processes of one
aggregator agree. It caches only what is costly to build from the rows and, for uploads, the rows
themselves, for as long as the store confirms their version (`upload_terms`).
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from aggregator.clock import Clock
from aggregator.codec import decode
from aggregator.dap.hpke import HpkeConfig, HpkeConfigList, HpkeKeypair
from aggregator.dap.ids import TaskId
from aggregator.dap.problems import TaskRefused, UnrecognizedTask
from aggregator.dap.profile import Role
from aggregator.entropy import Entropy
from aggregator.errors import ConfigurationError, LocalError, ParameterError
from aggregator.failures import in_thread
from aggregator.protocol.aggregation import VerificationKey
from aggregator.protocol.agreed_collectors import AgreedCollector
from aggregator.protocol.budget import horizon
from aggregator.protocol.groups import asked_together
from aggregator.protocol.hpke_rotation import HpkeRotation
from aggregator.protocol.reports import CLOCK_SKEW_SECONDS
from aggregator.protocol.requirements import Requirements, check_requirements
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml
from aggregator.service.runtime.in_band import InBand
from aggregator.service.runtime.key_rotation import (
    KeyRotation,
    advertised_keys,
    new_key,
    newest_keys,
)
from aggregator.service.runtime.verification import VerificationThreads
from aggregator.service.storage.backup.reconciliation import (
    write_down_share,
    write_down_without_share,
)
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Journal, share_sha256
from aggregator.service.storage.tasks.caller_tokens import valid_token_hashes
from aggregator.service.storage.tasks.hpke_keys import (
    HpkeKey,
    StoredConfig,
    list_hpke_configs,
    list_hpke_keys,
)
from aggregator.service.storage.tasks.tasks import (
    PublicTask,
    StoredTask,
    added_together,
    get_public_task,
    get_task,
    list_tasks,
    undecryptable_tasks,
)
from aggregator.service.storage.tasks.version import settings_version
from aggregator.service.telemetry.lines import log

T = TypeVar("T")
U = TypeVar("U")


@dataclasses.dataclass(frozen=True, slots=True)
class ServedTask:
    """A task and what this aggregator holds for it.

    Attributes:
        task: The task.
        verification_key: The task's one verification key.
        peer_token: Leader: the bearer token that we show to the helper.
        is_ended: Whether uploads are no longer accepted.
    """

    task: Task
    verification_key: VerificationKey
    peer_token: str | None = dataclasses.field(repr=False)
    is_ended: bool


@dataclasses.dataclass(frozen=True, slots=True)
class UploadTerms:
    """What uploads to a task are checked against.

    Attributes:
        task: The task.
        is_ended: Whether it takes no more uploads: an operator has ended it, or one of `others`.
        most_releases: How many releases it may make; None if there is no limit.
        others: The ids of the other tasks of the same answers, such as a survey's text questions,
            each with its `max_reports` if everybody reports to it, or None if it is in a group.
        config_ids: The ids of the HPKE configurations to which an upload may be sealed now.
        version: The version of the store's settings that these terms come from.
    """

    task: Task
    is_ended: bool
    most_releases: int | None
    others: Mapping[bytes, int | None]
    config_ids: frozenset[int]
    version: int


@dataclasses.dataclass(slots=True)
class _Terms:
    """What this process caches of tasks and keys, all from one version of the store's settings.

    Attributes:
        version: The version.
        ahead: How many seconds the store's clock, which decides when keys retire, is ahead of ours.
        configs: All HPKE configurations.
        tasks: Tasks, whether they have ended, their most releases, and the other tasks of the same
            answers; none of their secrets.
        second: Some second, the last one asked for.
        then: The terms of tasks in that second.
    """

    version: int
    ahead: int
    configs: list[StoredConfig]
    tasks: dict[TaskId, tuple[Task, bool, int | None, Mapping[bytes, int | None]]]
    second: int = -1
    then: dict[TaskId, UploadTerms] = dataclasses.field(default_factory=dict)

    def of(self, task_id: TaskId, rotation: HpkeRotation, now: int) -> UploadTerms:
        """Return the terms of one of the tasks."""
        if self.second != now:
            self.second = now
            self.then.clear()
        found = self.then.get(task_id)
        if found is None:
            config_ids = frozenset(
                each.config_id
                for each in self.configs
                if rotation.is_taken(each.retired_at, now + self.ahead)
            )
            found = UploadTerms(*self.tasks[task_id], config_ids, self.version)
            self.then[task_id] = found
        return found


class Runtime:
    """One aggregator, for its web application and its workers."""

    def __init__(
        self,
        role: Role,
        database: Database,
        clock: Clock,
        entropy: Entropy,
        journal: Journal | None = None,
        *,
        requirements: Requirements | None = None,
        in_band: InBand | None = None,
        rotation: HpkeRotation = HpkeRotation(),  # noqa: B008  frozen
        clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
        verification_threads: int | None = None,
    ) -> None:
        """Put an aggregator together.

        Args:
            role: LEADER or HELPER; tasks of the other role are not served.
            database: Its store, at the head of its migrations.
            clock: Tells the time.
            entropy: Where noise and ephemeral keys are drawn from.
            journal: The journal of releases; without one no share leaves.
            requirements: What a task must promise.
            in_band: Takes tasks that come with their first request; None: there are none.
            rotation: When HPKE keys change.
            clock_skew_seconds: How far ahead of the clock a report's time may lie.
            verification_threads: How many batches are verified at once; one per core by default.
        """
        self.role = role
        self.in_band = in_band
        self.database = database
        self.clock = clock
        self.entropy = entropy
        self.clock_skew_seconds = clock_skew_seconds
        self._journal = journal
        self._rotation = rotation
        self._requirements = Requirements() if requirements is None else requirements
        self._verification = VerificationThreads(role, verification_threads)
        self._tasks: dict[str, Task | TaskRefused] = {}
        self._keypairs: dict[bytes, HpkeKeypair] = {}
        self._terms: _Terms | None = None

    async def task(self, task_id: TaskId) -> ServedTask:
        """Return a task that we serve.

        Raises:
            UnrecognizedTask: There is no such task for our role.
            TaskRefused: It protects too little.
        """
        return await self.database.read("task", lambda tx: self.task_in(tx, task_id))

    def task_in(self, tx: Transaction, task_id: TaskId) -> ServedTask:
        """Do what `task` does, in a transaction."""
        stored = get_task(tx, task_id.value)
        if stored is None or stored.record.role != self.role.name.lower():
            raise UnrecognizedTask("no such task here", task_id)
        return self._served(stored)

    async def callers_task(
        self, task_id: TaskId, check: Callable[[Sequence[bytes]], None]
    ) -> ServedTask | None:
        """Return a task for which a caller has shown a token; None if we do not serve it.

        Args:
            task_id: The task.
            check: Refuses the caller, by raising, given the SHA-256 of each token that it may show
                us for the task; none if we do not serve it. It is called before anything else about
                the task is looked at, in a thread, and perhaps again.

        Raises:
            TaskRefused: It protects too little.
        """

        def look(tx: Transaction) -> ServedTask | None:
            hashes = self._caller_hashes(tx, task_id)
            check(hashes)
            return self.task_in(tx, task_id) if hashes else None

        return await self.database.read("caller's task", look)

    async def upload_terms(self, task_id: TaskId) -> UploadTerms:
        """Return what uploads to a task are checked against, perhaps from the cache.

        The transaction that stores them checks that it still holds (`settings_version`).

        Raises:
            UnrecognizedTask: There is no such task for our role.
            TaskRefused: It protects too little.
        """
        known = self.known_terms(task_id)
        if known is None:
            learnt = await self._learn(task_id)
            known = learnt.of(task_id, self._rotation, self.clock.now())
        return known

    def known_terms(self, task_id: TaskId) -> UploadTerms | None:
        """Return what `upload_terms` does, if that is in the cache."""
        known = self._terms
        if known is None or task_id not in known.tasks:
            return None
        return known.of(task_id, self._rotation, self.clock.now())

    def forget_terms(self, version: int) -> None:
        """Drop the cached terms if they are of this version, so that they are read anew."""
        if self._terms is not None and self._terms.version == version:
            self._terms = None

    async def _learn(self, task_id: TaskId) -> _Terms:
        def look(tx: Transaction) -> tuple[_Terms, StoredTask | None]:
            ahead = tx.now - self.clock.now()
            terms = _Terms(settings_version(tx), ahead, list_hpke_configs(tx), {})
            return terms, get_task(tx, task_id.value)  # its secrets must be readable

        found, stored = await self.database.read("upload terms", look)
        if stored is None or stored.record.role != self.role.name.lower():
            raise UnrecognizedTask("no such task here", task_id)
        served = self._served(stored)
        known = self._terms
        if known is None or known.version != found.version:
            known = self._terms = found
        others = await self._asked_with(served.task)
        # It takes seconds for some budgets, and strangers may have made the task.
        most = await in_thread(horizon, served.task)
        is_ended = served.is_ended or any(each.ended_at is not None for each, _ in others)
        named = {
            each.task_id.value: None if each.policy.group is not None else each.max_reports
            for _, each in others
        }
        known.tasks[task_id] = served.task, is_ended, most, named
        return known

    async def _asked_with(self, task: Task) -> list[tuple[PublicTask, Task]]:
        """Return the other tasks that take the same people's answers, such as a survey's.

        These come in one file, and have their people, windows and interval in common.
        """
        if not asked_together(task, task):
            return []
        beside = await self.database.read(
            "tasks of one file", lambda tx: added_together(tx, task.task_id.value)
        )
        found = []
        for each in beside:
            try:
                other = self._task(each.task_id, each.definition)
            except (TaskRefused, LocalError):
                continue  # it takes no reports
            if each.role == self.role.name.lower() and asked_together(task, other):
                found.append((each, other))
        return found

    async def asked_with(self, task: Task) -> list[Task]:
        """Return the other tasks that take the same people's answers, such as a survey's."""
        return [each for _, each in await self._asked_with(task)]

    async def public_task(self, task_id: TaskId) -> Task:
        """Return a task that we serve, without its secrets, which may be unreadable.

        Raises:
            UnrecognizedTask: There is no such task for our role.
            TaskRefused: It protects too little.
        """
        return await self.database.read("public task", lambda tx: self.public_task_in(tx, task_id))

    def public_task_in(self, tx: Transaction, task_id: TaskId) -> Task:
        """Do what `public_task` does, in a transaction."""
        stored = get_public_task(tx, task_id.value)
        if stored is None or stored.role != self.role.name.lower():
            raise UnrecognizedTask("no such task here", task_id)
        return self._task(stored.task_id, stored.definition)

    async def tasks(self) -> list[Task]:
        """Return all tasks that we serve, oldest first.

        Tasks that protect too little are left out. So is a task whose stored file cannot be read,
        which is logged.
        """
        served = []
        for stored in await self.database.read("tasks", list_tasks):
            if stored.role == self.role.name.lower():
                try:
                    served.append(self._task(stored.task_id, stored.definition))
                except TaskRefused:
                    continue
                except LocalError as error:
                    task_id = str(TaskId(stored.task_id))
                    log.error("task cannot be served", task=task_id, reason=str(error))
        return served

    async def keypairs(self) -> dict[int, HpkeKeypair]:
        """Return our HPKE key pairs by configuration id, including retired ones."""
        return self.keypairs_of(await self.database.read("hpke keys", list_hpke_keys))

    def keypairs_of(self, keys: Sequence[HpkeKey]) -> dict[int, HpkeKeypair]:
        """Return what `keypairs` does of all stored keys, which were read with something else."""
        keypairs = [self._keypair(key) for key in keys]
        self._keypairs = {key.config: keypair for key, keypair in zip(keys, keypairs, strict=True)}
        return {keypair.config.id: keypair for keypair in keypairs}

    async def configs(self) -> HpkeConfigList:
        """Return the HPKE configurations that we advertise, in order of preference."""
        stored = await self.database.read("hpke configurations", list_hpke_configs)
        return HpkeConfigList(tuple(advertised_keys(stored, self._rotation)))

    @property
    def wait_seconds(self) -> int:
        """How long reports may wait at the leader before the helper sees them."""
        return self._rotation.wait_seconds

    def key_rotation(self) -> KeyRotation:
        """Return what changes our HPKE keys as time passes."""
        return KeyRotation(self.role, self.database, self.entropy, self._rotation)

    def _caller_hashes(self, tx: Transaction, task_id: TaskId) -> list[bytes]:
        """Return the SHA-256 of each token that a caller may show us for a task, if we serve it.

        A collector with an identity is known by the token that its agreement has now.
        """
        found = valid_token_hashes(tx, task_id.value, self.role.name.lower())
        if self.in_band is None or self.role is not Role.LEADER:
            return found
        try:
            agreed = self.agreed_collector(self.public_task_in(tx, task_id))
        except (TaskRefused, UnrecognizedTask):
            return found
        return found + (agreed.token_hashes if agreed else [])

    def agreed_collector(self, task: Task) -> AgreedCollector | None:
        """Return what was agreed on with the collector that a task names, if that was with us."""
        return None if self.in_band is None else self.in_band.collector_of(task)

    async def ensure_keypair(self) -> None:
        """Make an HPKE key pair of each configured suite that has none."""

        def ensure(tx: Transaction) -> None:
            list_hpke_keys(tx)  # decrypts them, so a wrong store key is found at start-up
            there = newest_keys(list_hpke_configs(tx), self._rotation)
            for suite in self._rotation.suites:
                if suite not in there:
                    new_key(tx, self.entropy, suite)

        await self.database.run("ensure hpke key", ensure)

    async def before_share_leaves(self, task_id: TaskId, share: bytes) -> None:
        """Write the release of a sealed share, given as stored, into the journal of releases.

        Raises:
            LocalError: The release cannot be written, or contradicts another one: the share must
                not leave.
        """
        digest = share_sha256(share)
        journal = self.journal
        if not journal.holds(task_id.value, digest):
            await in_thread(write_down_share, self.database, journal, task_id.value, digest)

    async def journal_unshared_charges(self) -> None:
        """Write the charges for batches of which no share of ours leaves into the journal."""
        await in_thread(write_down_without_share, self.database, self.journal)

    @property
    def journal(self) -> Journal:
        """The journal of releases.

        Raises:
            LocalError: This process has none, and so releases nothing.
        """
        if self._journal is None:
            raise LocalError("this aggregator has no journal of releases")
        return self._journal

    async def verify(self, task: Task, work: Callable[[], T], then: Callable[[T], U]) -> U:
        """Run a step of verification, and store what comes of it, in one thread.

        Many run at once, and tasks take turns. Once begun, it is not cancelled.

        Args:
            task: The task.
            work: The step.
            then: Stores what `work` returns; it is not counted as verification.
        """
        return await self._verification.run(task, work, then)

    def verify_here(self, task: Task, work: Callable[[], T]) -> T:
        """Return `work()`, a step of verification, in the calling thread; for small jobs."""
        return self._verification.run_here(task, work)

    async def warm_up(self) -> None:
        """Start getting the kernels of all tasks in the background, before the first report."""
        broken = await self.database.read("undecryptable tasks", undecryptable_tasks)
        for task_id, reason in broken.items():
            log.error("task cannot be served", task=str(TaskId(task_id)), reason=reason)
        for task in await self.tasks():
            log.info("task", task=str(task.task_id), fingerprint=task.fingerprint)
            self._verification.warm_up(task)

    def _served(self, stored: StoredTask) -> ServedTask:
        record = stored.record
        return ServedTask(
            task=self._task(record.task_id, record.definition),
            verification_key=VerificationKey(record.verify_key_id, record.verify_key),
            peer_token=record.peer_token,
            is_ended=stored.ended_at is not None,
        )

    def _task(self, task_id: bytes, definition: str) -> Task:
        task = self._tasks.get(definition)
        if task is None:
            task = self._checked(task_id, definition)
            self._tasks[definition] = task
        if isinstance(task, TaskRefused):
            raise TaskRefused(task.detail, task.task_id)
        return task

    def _checked(self, task_id: bytes, definition: str) -> Task | TaskRefused:
        """Return the task of a stored file, or why we do not take part in it."""
        task = task_from_toml(definition)
        if task.task_id.value != task_id:
            raise ConfigurationError("a stored task's file is of another task")
        try:
            check_requirements(task, self._requirements)
            agreed = self.agreed_collector(task)
        except ParameterError as error:
            log.warning("task refused", task=str(task.task_id), reason=str(error))
            return TaskRefused(str(error), task.task_id)
        if agreed is None:
            return task
        return dataclasses.replace(task, collector_hpke_config=agreed.hpke_config)

    def _keypair(self, key: HpkeKey) -> HpkeKeypair:
        keypair = self._keypairs.get(key.config)
        if keypair is None:
            keypair = HpkeKeypair(decode(HpkeConfig, key.config), key.private_key)
        return keypair
