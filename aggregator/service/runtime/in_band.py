"""Takes part in tasks that come with their first request, as far as the operator's agreements go.

A stranger's upload can name any task, so it adds one only where the operator said how many may come
so. All others come with a request whose token the partner of the configuration shows.

Source: draft-ietf-ppm-dap-taskprov.
"""

from collections.abc import Sequence
from functools import partial

from aggregator.dap.ids import TaskId
from aggregator.dap.problems import InvalidTask, TooManyRequests, UnrecognizedTask
from aggregator.dap.profile import Role
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.failures import in_thread
from aggregator.protocol.agreed_collectors import AgreedCollector
from aggregator.protocol.agreements import Agreements, read_agreements
from aggregator.protocol.clear_text import check_endpoints, check_made_up
from aggregator.protocol.in_band import id_of
from aggregator.protocol.provisioning import Provision
from aggregator.protocol.requirements import Requirements, check_requirements
from aggregator.protocol.task import Task
from aggregator.service.config import AggregatorSettings, LeaderSettings, check_private, read_text
from aggregator.service.runtime.new_tasks import put_new_tasks
from aggregator.service.storage.engine import locks
from aggregator.service.storage.engine.backends import Conflict
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.ledger.journal import Journal, Release
from aggregator.service.storage.tasks.tasks import check_not_forgotten, count_tasks, get_public_task
from aggregator.service.telemetry.lines import log

_NOT_BY_UPLOADS = "no such task here before its collector asks for it"


class InBand:
    """What an aggregator does with a configuration that comes with a request."""

    def __init__(
        self,
        role: Role,
        database: Database,
        journal: Journal,
        agreements: Agreements,
        requirements: Requirements,
        *,
        insecure_http: bool = False,
    ) -> None:
        """Take tasks into `database`.

        Args:
            role: What we are in them.
            database: The store.
            journal: The journal of releases.
            agreements: What was agreed on with partners.
            requirements: What every task must promise.
            insecure_http: Whether plain HTTP to other machines is allowed.
        """
        self._role, self._database, self._journal = role, database, journal
        self._agreements, self._requirements = agreements, requirements
        self._insecure_http = insecure_http

    def caller_hashes(self, data: bytes | None) -> list[bytes]:
        """Return the hashes of the tokens that open a task which we do not have yet."""
        return self._agreements.caller_hashes(data)

    def collector_of(self, task: Task) -> AgreedCollector | None:
        """Return the collector that a task names by its identity, if its partner is one of ours.

        Raises `ParameterError` if the partner has none of that identity (any more).
        """
        return self._agreements.collector_of(task)

    @property
    def endpoints(self) -> list[str]:
        """Our own endpoints, as agreements have them."""
        partners = self._agreements.partners
        return [leader if self._role is Role.LEADER else helper for leader, helper in partners]

    async def add(self, task_id: TaskId, data: bytes, *, by_upload: bool) -> None:
        """Take part in the task of an encoded configuration, unless we do already.

        Args:
            task_id: The id in the request's path, which is the configuration's hash.
            data: The configuration.
            by_upload: Whether an upload brings it, for which nobody has shown a token.

        Raises:
            UnrecognizedTask: No task may come with an upload, or none that names its collector.
            InvalidTask: We take no part in it.
            TooManyRequests: We have as many tasks as may be, until the operator ends or allows
                more.
        """
        agreed = self._agreements
        most = agreed.max_tasks_by_uploads if by_upload else agreed.max_tasks
        if by_upload and not most:
            raise UnrecognizedTask(_NOT_BY_UPLOADS, task_id)

        def count(tx: Transaction) -> int:
            check_not_forgotten(tx, task_id.value)
            return count_tasks(tx)

        try:
            # Before anything is made of it: it may be one of many that a stranger sends.
            if await self._database.read("count tasks", count) >= most:
                raise _no_room(task_id)
            given = self._provision(data)
            if by_upload and self.collector_of(given.task) is not None:
                # Its places are its own (`max_tasks` of a collector): strangers fill none of them.
                raise UnrecognizedTask(_NOT_BY_UPLOADS, task_id)
            released = await in_thread(self._journal.releases)
            put = partial(self._put, given=given, released=released, most=most)
            await self._database.run("put task in band", put)
        except (ParameterError, Conflict) as error:
            raise InvalidTask(str(error), task_id) from None
        log.info("task in band", task=str(task_id), fingerprint=given.task.fingerprint)

    def _provision(self, data: bytes) -> Provision:
        given = self._agreements.partner_of(data).provision(data)
        check_made_up(given.task, rehearses=False)
        check_endpoints(given.task, insecure_http=self._insecure_http)
        check_requirements(given.task, self._requirements)
        return given

    def _put(
        self, tx: Transaction, given: Provision, released: Sequence[Release], most: int
    ) -> None:
        locks.add_tasks(tx)
        task_id = given.task.task_id
        if get_public_task(tx, task_id.value) is not None:
            return  # another request brought it, or its operator
        if count_tasks(tx) >= most:
            raise _no_room(task_id)
        agreed = self.collector_of(given.task)
        if agreed is not None and count_tasks(tx, agreed.identity) >= agreed.max_tasks:
            raise _no_room(task_id)
        put_new_tasks(tx, self._role, [given], released)


def _no_room(task_id: TaskId) -> TooManyRequests:
    return TooManyRequests("no room for another task that comes in band", task_id)


def agreements_of(settings: AggregatorSettings) -> Agreements | None:
    """Return what an operator has agreed on, if tasks may come in band.

    Raises `ConfigurationError`, without anything secret.
    """
    path = settings.in_band_tasks
    if path is None:
        return None
    try:
        check_private(path)
        role = Role.LEADER if isinstance(settings, LeaderSettings) else Role.HELPER
        return read_agreements(read_text(path), role)
    except OSError as error:
        raise ConfigurationError(f"in_band_tasks: {path}: {error.strerror}") from error
    except ParameterError as error:
        raise ConfigurationError(f"in_band_tasks: {path}: {error}") from None


def check_id(task_id: TaskId, data: bytes) -> None:
    """Refuse, as `UnrecognizedTask`, a request whose path names another task than its header."""
    if id_of(data) != task_id:
        raise UnrecognizedTask("the task in the path is not that of the header", task_id)
