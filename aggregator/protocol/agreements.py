"""What an operator has agreed on with partners whose tasks come with their first request.

    version = 1
    max_tasks = 100

    [[partner]]
    leader = "https://leader.example/"
    helper = "https://helper.example/"
    collector_hpke_config = "…"
    vdafs = "Prio3Count Prio3Histogram"
    min_batch_size = 100
    max_reports = 1000000
    max_report_bytes = 20000
    max_epsilon = "1"

    [partner.secrets]
    verify_key_init = "…"
    leader_token = "…"
    collector_token = "…"  # at the leader

Collectors that tasks name by their identity have tables of their own (`agreed_collectors`).
Nothing is taken that this does not allow: a stranger may have made the configuration.

Source: draft-ietf-ppm-dap-taskprov; RFC 5869, "HMAC-based Key Derivation Function (HKDF)".
"""

import dataclasses
import hashlib
import tomllib
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from aggregator.codec import DecodeError, decode
from aggregator.dap.attribution import Attribution
from aggregator.dap.auth import TokenHeader, check_token, hash_token, token_header_named
from aggregator.dap.ids import TaskId, decode_base64url
from aggregator.dap.profile import DAP_18, Profile, Role, profile_named
from aggregator.dap.task import TaskConfiguration
from aggregator.dap.urls import origin, read_endpoint
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.policy import PrivacyPolicy
from aggregator.dp.policy_table import policy_from_mapping
from aggregator.dp.rationals import parse_rational
from aggregator.errors import ParameterError
from aggregator.protocol.agreed_collectors import AgreedCollector, AgreedCollectors, read_collectors
from aggregator.protocol.in_band import id_of
from aggregator.protocol.provisioning import Provision, TaskSecrets
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.requirements import Requirements, check_requirements
from aggregator.protocol.task import LARGEST_MAX_REPORTS, Task
from aggregator.protocol.task_documents import NOT_TOML, check_text, place_in_text
from aggregator.protocol.task_file import check_restored, collector_config_from_text, task_to_toml
from aggregator.protocol.toml_table import TomlTable
from aggregator.vdaf.instances import TYPES
from aggregator.vdaf.seeds import SEED_SIZE

VERSION = 1

INIT_SIZE = 32
"""Bytes of `verify_key_init`, which the aggregators agree on."""

_PARTNERS = "partner"
_KEY_SALT = hashlib.sha256(b"dap-taskprov").digest()


def identity_in(configuration: TaskConfiguration) -> str | None:
    """Return the identity of the collector that a configuration names, if it names one.

    Raises `ParameterError` if what it says of attribution is none.
    """
    attribution = Attribution.of(configuration.extensions)
    return None if attribution is None else attribution.collector_identity


def endpoints_of(configuration: TaskConfiguration) -> tuple[str, str]:
    """Return the endpoints of leader and helper."""
    return configuration.leader_aggregator_endpoint, configuration.helper_aggregator_endpoint


def verify_key_of(init: bytes, task_id: TaskId) -> bytes:
    """Return a task's verification key, 32 bytes, by HKDF-SHA256."""
    return HKDF(SHA256(), SEED_SIZE, _KEY_SALT, task_id.value).derive(init)


@dataclasses.dataclass(frozen=True, slots=True)
class Partner:
    """Two aggregators, one of which we are, and the tasks of theirs that we take.

    Attributes:
        leader, helper: The endpoints, as configurations must have them to the byte.
        role: Which of the two we are.
        vdaf_types: The code points of the types that are taken.
        max_reports: The most reports of a batch.
        max_report_bytes: The largest report that is taken, as it is uploaded.
        requirements: What a task must promise.
        unbound_policy: The policy of tasks whose configuration has none; None: they are refused,
            but for those of attribution, whose epsilon may be as large as `requirements` let it.
        populations: Those that a configuration may name, besides none.
        profile: The draft that all follow.
        token_header: Where tokens are shown.
        verify_key_init: What verification keys are derived from.
        leader_token: What the leader shows to the helper.
        collectors: Who collects, by the identity in a task.
    """

    leader: str
    helper: str
    role: Role
    vdaf_types: frozenset[int]
    max_reports: int
    max_report_bytes: int
    requirements: Requirements
    unbound_policy: PrivacyPolicy | None
    populations: frozenset[str]
    profile: Profile
    token_header: TokenHeader
    verify_key_init: bytes = dataclasses.field(repr=False)
    leader_token: str = dataclasses.field(repr=False)
    collectors: AgreedCollectors

    def caller_hashes(self, identity: str | None) -> list[bytes]:
        """Return the SHA-256 of each token by which a collector's task may be brought to us.

        Everybody who calls us may be told that the collector is not in the agreement.
        """
        if self.role is Role.HELPER:
            return [hash_token(self.leader_token)]
        if identity in self.collectors:
            return self.collectors[identity].token_hashes
        return self.all_caller_hashes()

    def all_caller_hashes(self) -> list[bytes]:
        """Return the SHA-256 of each token that those who call us may show."""
        if self.role is Role.HELPER:
            return [hash_token(self.leader_token)]
        return [token for each in self.collectors.values() for token in each.token_hashes]

    def collector_of(self, identity: str | None) -> AgreedCollector:
        """Return the collector with this identity, or raise `ParameterError`."""
        if identity not in self.collectors:
            who = "none" if identity is None else repr(identity)
            raise ParameterError(f"collector_identity: {who} is not in the agreement")
        return self.collectors[identity]

    def provision(self, data: bytes) -> Provision:
        """Return the task of an encoded configuration and our secrets, as of a file for us.

        Raises:
            ParameterError: We take no part in such a task; the message names the limit.
        """
        task = self._task(data)
        check_requirements(task, self.requirements)
        named, group = task.policy.population, task.policy.group
        if (named or group is not None) and named not in self.populations:
            # Its releases would be paid for by the budget of people of ours.
            raise ParameterError(f"population: {named!r} is not in the agreement")
        if task.permits is not None:
            raise ParameterError("permits: a task that needs them is added by hand")
        collector = self.collector_of(identity_in(task.configuration))
        # Those of an identity are looked up here whenever one is shown: they may be replaced.
        token = collector.tokens[0] if collector.tokens and not collector.identity else None
        return Provision(
            task,
            task_to_toml(task),
            TaskSecrets(
                verify_key=verify_key_of(self.verify_key_init, task.task_id),
                leader_token=self.leader_token,
                collector_token=token,
            ),
        )

    def _task(self, data: bytes) -> Task:
        configuration = _decoded(data)
        if configuration.vdaf_type not in self.vdaf_types:
            raise ParameterError(f"vdaf_type: {configuration.vdaf_type:#x} is not in the agreement")
        if len(configuration.vdaf_configuration) > self.max_report_bytes:
            raise ParameterError("vdaf_configuration: is larger than max_report_bytes")
        collector = self.collector_of(identity_in(configuration))
        task = Task.create(
            task_id=id_of(data),
            configuration=configuration,
            collector_hpke_config=collector.hpke_config,
            max_reports=self.max_reports,
            unbound_policy=self._policy_of(configuration),
            profile=self.profile,
            token_header=self.token_header,
        )
        size = report_sizes(task).report
        if size > self.max_report_bytes:
            raise ParameterError(
                f"max_report_bytes: a report may have {self.max_report_bytes:,}, not {size:,}"
            )
        check_restored(task, data)
        return task

    def _policy_of(self, configuration: TaskConfiguration) -> PrivacyPolicy | None:
        """Return the policy of a configuration's task; None if it binds one."""
        if configuration.privacy is not None:
            return None
        policy, most = self.unbound_policy, self.requirements.max_epsilon
        is_exact = policy is not None and not policy.mechanism.is_noisy
        if identity_in(configuration) is not None and most is not None:
            # Each collection says its epsilon, so the largest is all that is to be agreed on.
            return policy if is_exact else PrivacyPolicy(PureDpDiscreteLaplace(most))
        if policy is None:
            raise ParameterError("privacy: the agreement has no policy for tasks that bind none")
        return policy


@dataclasses.dataclass(frozen=True, slots=True)
class Agreements:
    """All partners, and how many tasks may come from them.

    Attributes:
        partners: By the endpoints of leader and helper.
        max_tasks: No task is taken in while we serve as many, of whatever origin.
        max_tasks_by_uploads: The same for tasks that come with an upload, which anybody can make.
    """

    partners: Mapping[tuple[str, str], Partner]
    max_tasks: int
    max_tasks_by_uploads: int

    def partner_of(self, data: bytes) -> Partner:
        """Return the partner of an encoded configuration, or raise `ParameterError`."""
        partner = self.partners.get(endpoints_of(_decoded(data)))
        if partner is None:
            raise ParameterError("endpoints: there is no agreement for those of the configuration")
        return partner

    def collector_of(self, task: Task) -> AgreedCollector | None:
        """Return the collector of a task that names one; None if it names none, or no partner.

        Raises `ParameterError` if the task's partner has none of that identity.
        """
        identity = identity_in(task.configuration)
        partner = self.partners.get(endpoints_of(task.configuration))
        return None if partner is None or identity is None else partner.collector_of(identity)

    def caller_hashes(self, data: bytes | None) -> list[bytes]:
        """Return the hashes of tokens that open a task which is not stored.

        That is the token of the partner, and its collector, that a configuration names; without
        one, any partner's.
        """
        if data is None:
            partners = self.partners.values()
            return [token for each in partners for token in each.all_caller_hashes()]
        try:
            return self.partner_of(data).caller_hashes(identity_in(_decoded(data)))
        except ParameterError:
            return []


def read_agreements(text: str, role: Role) -> Agreements:
    """Read an aggregator's file of agreements; the message of an error has nothing secret."""
    check_text(text, "file")
    try:
        document = tomllib.loads(text)
    except NOT_TOML as error:
        raise ParameterError(f"file: not TOML{place_in_text(str(error))}") from None
    tables = _tables(document, _PARTNERS)
    if not tables:
        raise ParameterError(
            f"{_PARTNERS}: must be a table for each, [[{_PARTNERS}]]; there is none"
        )
    top = TomlTable(document, "")
    if (version := top.integer("version")) != VERSION:
        raise ParameterError(f"version: must be {VERSION}, not {version}")
    max_tasks = top.integer("max_tasks")
    by_uploads = top.integer("max_tasks_by_uploads") if "max_tasks_by_uploads" in top.values else 0
    top.finish()
    partners: dict[tuple[str, str], Partner] = {}
    for place, table in enumerate(tables, 1):
        partner = _partner(table, role)
        if partners.setdefault((partner.leader, partner.helper), partner) is not partner:
            raise ParameterError(f"{_PARTNERS} {place}: has the endpoints of another one")
    _check_secrets([*partners.values()])
    return Agreements(partners, max_tasks, by_uploads)


def _tables(values: dict[str, object], name: str, prefix: str = "") -> list[TomlTable]:
    """Take an array of tables, which is empty if it is missing."""
    given = values.pop(name, [])
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise ParameterError(f"{name}: must be a table for each, [[{name}]]")
    return [TomlTable(each, f"{prefix}{name} {place}") for place, each in enumerate(given, 1)]


def _partner(table: TomlTable, role: Role) -> Partner:
    privacy, secrets = table.optional_table("privacy"), table.table("secrets")
    policy = None if privacy is None else policy_from_mapping(privacy.values)
    unnamed, leader_token = _unnamed(table, secrets, role), _token(secrets, "leader_token")
    tables = _tables(table.values, "collector", table.prefix)
    partner = Partner(
        leader=table.text("leader"),
        helper=table.text("helper"),
        role=role,
        vdaf_types=_types(table.text("vdafs")),
        requirements=Requirements(
            min_batch_size=table.integer("min_batch_size"),
            max_epsilon=parse_rational(table.text("max_epsilon"), "max_epsilon"),
            max_delta=None,  # the service's own requirements, which hold too, have these limits
            exact_results=policy is not None and not policy.mechanism.is_noisy,
        ),
        max_reports=table.integer("max_reports"),
        max_report_bytes=table.integer("max_report_bytes"),
        unbound_policy=policy,
        populations=frozenset(table.text_or("populations", "").split()),
        profile=profile_named(table.text_or("profile", DAP_18.name)),
        token_header=token_header_named(
            table.text_or("token_header", TokenHeader.AUTHORIZATION.value)
        ),
        verify_key_init=_init(secrets.text("verify_key_init")),
        leader_token=leader_token,
        collectors=read_collectors(unnamed, tables, role),
    )
    secrets.finish()
    table.finish()
    _check_partner(partner)
    return partner


def _check_partner(partner: Partner) -> None:
    """Refuse what would only come out at a request, perhaps for another partner's task."""
    read_endpoint(partner.leader, "leader")
    read_endpoint(partner.helper, "helper")
    least, most = partner.requirements.min_batch_size, partner.max_reports
    if not 1 <= least <= most <= LARGEST_MAX_REPORTS:
        raise ParameterError(
            f"min_batch_size, max_reports: must be from 1 to max_reports, and at most 2^63 - 1, "
            f"not {least} and {most}"
        )


def _check_secrets(partners: Sequence[Partner]) -> None:
    """Refuse secrets that another one than both aggregators would know."""
    parties: dict[str | bytes, str] = {}
    for each in partners:
        other = origin(each.helper if each.role is Role.LEADER else each.leader)
        for name in ("leader_token", "verify_key_init"):
            if parties.setdefault(getattr(each, name), other) != other:
                raise ParameterError(f"{name}: two partners have one, and could pass as each other")
    leaders = {each.leader_token for each in partners}
    for each in partners:
        if any(token in leaders for some in each.collectors.values() for token in some.tokens):
            raise ParameterError(
                "collector_token: must not be leader_token, or the collector could be a leader"
            )


def _unnamed(table: TomlTable, secrets: TomlTable, role: Role) -> AgreedCollector | None:
    if "collector_hpke_config" not in table.values and "collector" in table.values:
        return None
    config = collector_config_from_text(table.text("collector_hpke_config"))
    tokens = (_token(secrets, "collector_token"),) if role is Role.LEADER else ()
    return AgreedCollector(config, tokens)


def _types(text: str) -> frozenset[int]:
    names = text.split()
    unknown = [name for name in names if name not in TYPES]
    if unknown or not names:
        raise ParameterError(f"vdafs: must be names, such as {', '.join(TYPES)}, not {text!r}")
    return frozenset(TYPES[name].algorithm_id for name in names)


def _init(text: str) -> bytes:
    try:
        init = decode_base64url(text)
    except DecodeError:
        init = b""
    if len(init) != INIT_SIZE:
        raise ParameterError(f"verify_key_init: must be {INIT_SIZE} bytes in unpadded base64url")
    return init


def _token(secrets: TomlTable, name: str) -> str:
    token = secrets.text(name)
    check_token(token, name)
    return token


def _decoded(data: bytes) -> TaskConfiguration:
    try:
        return decode(TaskConfiguration, data)
    except DecodeError as error:
        raise ParameterError(f"configuration: {error}") from None
