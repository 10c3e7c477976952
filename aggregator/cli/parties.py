"""A party's store as its operator uses it: tasks, counts of reports, privacy spent.

It can be used while a service of the same party runs on the same store.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aggregator.cli.stores import open_database
from aggregator.codec import decode, encode
from aggregator.collector.documents import Document, task_document
from aggregator.config import (
    AggregatorSettings,
    CollectorSettings,
    read_settings,
    read_settings_of,
)
from aggregator.dap.auth import hash_token
from aggregator.dap.hpke import HpkeConfig, HpkeKeypair, generate_keypair
from aggregator.dap.ids import TaskId
from aggregator.dap.profile import Role
from aggregator.entropy import SystemEntropy
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.floor import check_floor
from aggregator.protocol.provisioning import Provision, read_provision
from aggregator.protocol.task import Task, task_from_toml
from aggregator.runtime.spending import check_new_task, fix_population
from aggregator.storage import collector as collector_store
from aggregator.storage import tasks as task_store
from aggregator.storage.counters import AGGREGATED, Stage, report_counts
from aggregator.storage.database import Database, Transaction
from aggregator.storage.ledger import LedgerEntry, list_ledger
from aggregator.storage.populations import Population, get_population
from aggregator.transport.client import check_scheme

MAX_CONFIG_ID = 255


@dataclass(frozen=True, slots=True)
class AggregatorDesk:
    """The leader's or the helper's store."""

    role: Role
    settings: AggregatorSettings
    database: Database

    def add_task(self, text: str) -> Task:
        """Take part in the task of this party's file.

        Raises:
            ParameterError: The file is not ours, the task protects people less than we require, or
                its population has no budget left for it.
            Conflict: We take part in it already, with other contents, or its population is closed.
        """
        given = read_provision(text, self.role)
        check_endpoints(given.task, insecure_http=self.settings.insecure_http)
        check_floor(given.task, self.settings.floor)
        record = _task_record(given, self.role)

        def put(tx: Transaction) -> None:
            if task_store.get_task(tx, record.task_id) is None:
                check_new_task(tx, given.task)
            task_store.put_task(tx, record)

        self.database.run_sync("put task", put)
        return given.task

    def tasks(self) -> list[Task]:
        """Return the tasks that we take part in, oldest first."""
        stored = self.database.read_sync("list tasks", task_store.list_tasks)
        return [task_from_toml(each.record.definition) for each in stored]

    def end_task(self, task_id: TaskId) -> None:
        """Take no more uploads for a task."""
        self.database.run_sync("end task", lambda tx: task_store.end_task(tx, task_id.value))

    def document(self, task_id: TaskId) -> Document:
        """Return a task and the counts of its reports, by stage and reason."""

        def read(tx: Transaction) -> Document:
            stored = task_store.get_task(tx, task_id.value)
            if stored is None:
                raise _no_task(task_id)
            counts = {str(stage): report_counts(tx, task_id.value, stage) for stage in Stage}
            return {
                **task_document(task_from_toml(stored.record.definition)),
                "role": self.role.name.lower(),
                "created_at": stored.created_at,
                "ended_at": stored.ended_at,
                "reports": counts,
            }

        return self.database.read_sync("show task", read)

    def aggregated(self, task_id: TaskId) -> int:
        """Return how many reports of a task we verified and added up."""
        counts = self.database.read_sync(
            "count reports", lambda tx: report_counts(tx, task_id.value, Stage.AGGREGATION)
        )
        return counts.get(AGGREGATED, 0)

    def hpke_keys(self) -> list[task_store.HpkeKey]:
        """Return our HPKE key pairs, newest first, including retired ones."""
        return self.database.read_sync(
            "list hpke keys", lambda tx: task_store.list_hpke_keys(tx, retired=True)
        )

    def new_hpke_key(self) -> int:
        """Make an HPKE key pair under an id that was never used; return the id.

        Raises:
            ParameterError: All ids were used.
        """

        def make(tx: Transaction) -> int:
            used = {key.config_id for key in task_store.list_hpke_keys(tx, retired=True)}
            config_id = next((free for free in range(MAX_CONFIG_ID + 1) if free not in used), None)
            if config_id is None:
                raise ParameterError(f"all {MAX_CONFIG_ID + 1} HPKE configuration ids were used")
            made = generate_keypair(config_id, SystemEntropy())
            task_store.put_hpke_key(
                tx, task_store.HpkeKey(config_id, encode(made.config), made.private_key)
            )
            return config_id

        return self.database.run_sync("new hpke key", make)

    def retire_hpke_key(self, config_id: int) -> None:
        """Stop advertising an HPKE key pair.

        Raises:
            ParameterError: It is not advertised, or it is the only one that is.
        """

        def retire(tx: Transaction) -> None:
            advertised = [key.config_id for key in task_store.list_hpke_keys(tx, retired=False)]
            if config_id not in advertised:
                raise ParameterError(f"HPKE key {config_id}: is not advertised")
            if len(advertised) == 1:
                raise ParameterError(
                    f"HPKE key {config_id}: is the only one; make another with `prio hpke new`"
                )
            task_store.retire_hpke_key(tx, config_id)

        self.database.run_sync("retire hpke key", retire)

    def ledger(self) -> list[LedgerEntry]:
        """Return the releases of all tasks, oldest first."""
        return self.database.read_sync("list ledger", list_ledger)

    def population(self, name: str) -> Population:
        """Return what is fixed about a population."""
        return self.database.read_sync("get population", lambda tx: get_population(tx, name))

    def fix_population(self, name: str, population: Population) -> None:
        """Fix what the tasks of a population may cost together; see `fix_population`."""
        self.database.run_sync("fix population", lambda tx: fix_population(tx, name, population))


@dataclass(frozen=True, slots=True)
class CollectorDesk:
    """The collector's store."""

    settings: CollectorSettings
    database: Database

    def add_task(self, text: str) -> Task:
        """Take part in the task of the collector's file.

        Raises:
            ParameterError: The file is not the collector's, or the task's results are sealed to
                another key than ours.
            Conflict: We take part in it already, with other contents.
        """
        given = read_provision(text, Role.COLLECTOR)
        check_endpoints(given.task, insecure_http=self.settings.insecure_http)
        if given.task.collector_hpke_config != self.keypair().config:
            raise ParameterError(
                "collector_hpke_config: the task's results are sealed to another key than this "
                "collector's; `prio collector config` prints ours"
            )
        if given.secrets.collector_token is None:
            raise ParameterError("secrets.collector_token: missing")
        record = collector_store.CollectorTask(
            given.task.task_id.value, given.definition, given.secrets.collector_token
        )
        self.database.run_sync(
            "put task", lambda tx: collector_store.put_collector_task(tx, record)
        )
        return given.task

    def tasks(self) -> list[Task]:
        """Return the tasks that we collect, oldest first."""
        records = self.database.read_sync("list tasks", collector_store.list_collector_tasks)
        return [task_from_toml(record.definition) for record in records]

    def end_task(self, task_id: TaskId) -> None:
        """Refuse: only the leader ends a task."""
        raise ParameterError(f"task {task_id}: the leader ends it, not the collector")

    def document(self, task_id: TaskId) -> Document:
        """Return a task."""
        for task in self.tasks():
            if task.task_id == task_id:
                return {**task_document(task), "role": "collector"}
        raise _no_task(task_id)

    def keypair(self) -> HpkeKeypair:
        """Return the key pair to which results are sealed; make it on first use."""

        def ensure(tx: Transaction) -> HpkeKeypair:
            for key in task_store.list_hpke_keys(tx, retired=False):
                return HpkeKeypair(decode(HpkeConfig, key.config), key.private_key)
            made = generate_keypair(0, SystemEntropy())
            task_store.put_hpke_key(
                tx, task_store.HpkeKey(0, encode(made.config), made.private_key)
            )
            return made

        return self.database.run_sync("ensure hpke key", ensure)


Desk = AggregatorDesk | CollectorDesk


@contextmanager
def open_desk(config: Path | None) -> Iterator[Desk]:
    """Open the store of whichever party the settings are for.

    Args:
        config: The service file; None if all settings come from the environment.

    Raises:
        ConfigurationError: The settings or the store cannot be used.
    """
    settings = read_settings(config)
    database = open_database(settings)
    try:
        if isinstance(settings, CollectorSettings):
            yield CollectorDesk(settings, database)
        else:
            yield AggregatorDesk(Role[settings.role.upper()], settings, database)
    finally:
        database.close()


@contextmanager
def open_aggregator(config: Path | None) -> Iterator[AggregatorDesk]:
    """Open an aggregator's store; raises as `open_desk`, or if the settings are the collector's."""
    with open_desk(config) as desk:
        if not isinstance(desk, AggregatorDesk):
            raise ConfigurationError(
                f"{config or 'the environment'}: has the collector's settings; only a leader or a "
                "helper has this"
            )
        yield desk


@contextmanager
def open_collector(config: Path | None) -> Iterator[CollectorDesk]:
    """Open the collector's store; raises as `open_desk`, or if the settings are an aggregator's."""
    settings = read_settings_of(CollectorSettings, config)
    database = open_database(settings)
    try:
        yield CollectorDesk(settings, database)
    finally:
        database.close()


def check_endpoints(task: Task, *, insecure_http: bool) -> None:
    """Refuse a task whose reports and tokens would travel in the clear.

    Raises:
        ParameterError: See `check_scheme`.
    """
    configuration = task.configuration
    check_scheme(configuration.leader_aggregator_endpoint, "leader", insecure_http=insecure_http)
    check_scheme(configuration.helper_aggregator_endpoint, "helper", insecure_http=insecure_http)


def _task_record(given: Provision, role: Role) -> task_store.TaskRecord:
    secrets = given.secrets
    if secrets.verify_key is None or secrets.leader_token is None:
        raise ParameterError("[secrets]: an aggregator needs verify_key and leader_token")
    is_leader = role is Role.LEADER
    token = secrets.collector_token
    return task_store.TaskRecord(
        task_id=given.task.task_id.value,
        role=role.name.lower(),
        definition=given.definition,
        verify_key=secrets.verify_key,
        peer_token=secrets.leader_token if is_leader else None,
        leader_token_hash=None if is_leader else hash_token(secrets.leader_token),
        collector_token_hash=None if token is None else hash_token(token),
    )


def _no_task(task_id: TaskId) -> ParameterError:
    return ParameterError(f"task: this party has no task {task_id}")
