"""A task: everything both aggregators, the client and the collector must agree on.

As a file, a task is read and written by `task_file`. Its wire form is `TaskConfiguration`, whose
bytes are bound into every report and every aggregate share; an aggregator decodes the privacy
policy that it applies from those very bytes, so a party with another configuration cannot open
anything. Verification keys and tokens are no part of a task.

Source: DAP, "Task Configuration".
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from typing import Final, Self

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.auth import TokenHeader
from aggregator.dap.dialect import AS_DRAFTED
from aggregator.dap.extensions import unrecognized
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.messages import input_share_aad_prefix
from aggregator.dap.problems import InvalidAggregationParameter
from aggregator.dap.profile import DAP_18, TASK_EXTENSIONS, BatchMode, Profile
from aggregator.dap.task import TaskConfiguration
from aggregator.dap.times import Interval, Time
from aggregator.dap.urls import read_endpoint
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import PrivacyPolicy, decode_policy
from aggregator.dp.release import check_no_wrap
from aggregator.errors import ParameterError
from aggregator.protocol.batch_modes import Batching
from aggregator.protocol.batches import Batch
from aggregator.protocol.collector_selected import CollectorSelected
from aggregator.protocol.leader_selected import LeaderSelected
from aggregator.protocol.permits import Permits
from aggregator.protocol.signed_permits import IssuerKeys
from aggregator.protocol.time_interval import TimeInterval
from aggregator.untrusted_text import escaped, first_unsafe_member, is_unsafe
from aggregator.vdaf.aggregation_parameter import AggregationParameter
from aggregator.vdaf.instances import prio3_from_configuration
from aggregator.vdaf.prio3 import Prio3

_MAX_TASK_INFO = 255
_DIGEST_MARK = " meaning:"
_DIGEST_ENDING = re.compile(f"{_DIGEST_MARK}[A-Za-z0-9_-]{{43}}$")
MADE_UP: Final = "Made up: "
"""The title of a task begins so if all of its answers are made up, to rehearse a survey."""
BATCH_MODES: Mapping[BatchMode, Batching] = {
    BatchMode.TIME_INTERVAL: TimeInterval(),
    BatchMode.LEADER_SELECTED: LeaderSelected(),
    BatchMode.COLLECTOR_SELECTED: CollectorSelected(),
}
"""The batch modes that are served."""
LARGEST_MAX_REPORTS = 2**63 - 1
"""A count must fit a signed 64-bit column of the store."""


@dataclasses.dataclass(frozen=True, slots=True)
class Task:
    """One task, as every party sees it; `Task.create` makes and checks it."""

    task_id: TaskId
    configuration: TaskConfiguration
    collector_hpke_config: HpkeConfig
    max_reports: int
    policy: PrivacyPolicy
    is_policy_bound: bool
    interval: Interval | None
    prio3: Prio3 = dataclasses.field(repr=False, compare=False)
    configuration_bytes: bytes = dataclasses.field(repr=False)
    meaning: str = dataclasses.field(default="", repr=False)
    profile: Profile = DAP_18
    token_header: TokenHeader = TokenHeader.AUTHORIZATION
    permits: Permits | None = None
    issuer_keys: IssuerKeys | None = None
    attribution: Attribution | None = None

    @classmethod
    def create(
        cls,
        task_id: TaskId,
        configuration: TaskConfiguration,
        collector_hpke_config: HpkeConfig,
        max_reports: int,
        unbound_policy: PrivacyPolicy | None = None,
        meaning: str = "",
        profile: Profile = DAP_18,
        token_header: TokenHeader = TokenHeader.AUTHORIZATION,
        issuer_keys: IssuerKeys | None = None,
    ) -> Self:
        """Return the task, checked.

        Args:
            task_id: The task's identifier.
            configuration: What the parties agreed on.
            collector_hpke_config: Whom aggregate shares are sealed to.
            max_reports: The most reports that one batch may hold; their sum, with noise, must not
                wrap around the field.
            unbound_policy: The privacy policy, where the configuration carries none.
            meaning: What the task's numbers mean, for readers; `task_info` ends with its digest.
            profile: The draft that all parties of the task follow. It is not part of the
                configuration, but is bound into everything that is sealed.
            token_header: Where leader and collector show their tokens.
            issuer_keys: The keys of signed permits, whose digest the configuration has.

        Raises:
            ParameterError: The task cannot be run; the message names the setting.
        """
        _check_numbers(configuration, max_reports)
        attribution = Attribution.of(configuration.extensions)
        _check_info_size(configuration, 0 if attribution else profile.min_task_info_size, profile)
        _check_words(configuration, meaning)
        _check_extensions(configuration)
        _check_meaning(configuration.task_info, meaning)
        privacy = configuration.privacy
        bound_policy = None if privacy is None else _policy(privacy)
        if bound_policy is not None and unbound_policy is not None:
            raise ParameterError("privacy: the task's configuration already carries a policy")
        policy = bound_policy if bound_policy is not None else unbound_policy
        if policy is None:
            raise ParameterError(
                "privacy: a task needs a policy; one without noise says mechanism = 'None'"
            )
        prio3 = prio3_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)
        policy.check(prio3.circuit)
        if policy.suppression is not None:
            policy.suppression.check_batches(configuration.min_batch_size)
        if policy.group is not None and bound_policy is None:
            raise ParameterError(
                "group: needs a privacy table that is bound into reports, because clients keep "
                "people to one place; leave bound = false out"
            )
        if policy.window is not None and configuration.batch_mode is not BatchMode.TIME_INTERVAL:
            raise ParameterError("window: needs the batch mode time_interval")
        permits = _permits(configuration, profile, issuer_keys)
        if configuration.batch_mode is BatchMode.COLLECTOR_SELECTED:
            _check_bundles(profile, permits)
        if attribution is not None:
            _check_attribution(policy, permits)
        check_no_wrap(prio3.circuit, policy.mechanism, max_reports)
        return cls(
            task_id=task_id,
            configuration=configuration,
            collector_hpke_config=collector_hpke_config,
            max_reports=max_reports,
            policy=policy,
            is_policy_bound=bound_policy is not None,
            interval=configuration.task_interval,
            prio3=prio3,
            configuration_bytes=encode(configuration),
            meaning=meaning,
            profile=profile,
            token_header=token_header,
            permits=permits,
            issuer_keys=issuer_keys,
            attribution=attribution,
        )

    @property
    def info(self) -> str:
        """Its `task_info`, which need not be text, as one line that is safe to print."""
        text = self.configuration.task_info.decode(errors="replace")
        return escaped(text).replace("\n", "\\n") if is_unsafe(text) else text

    @property
    def title(self) -> str:
        """What the task is for: its `task_info` without the digest that binds its meaning."""
        return without_digest(self.info)

    @property
    def is_made_up(self) -> bool:
        """Whether its answers are made up: nobody is asked, and only one machine takes part."""
        return says_made_up(self.title)

    @property
    def opens(self) -> int:
        """The earliest time of its reports, in seconds since the epoch."""
        return 0 if self.interval is None else self.interval.start.units * self.time_precision

    @property
    def closes(self) -> int | None:
        """The time from which on it takes no reports, in seconds; None if it never closes."""
        return None if self.interval is None else self.interval.end.units * self.time_precision

    @property
    def batching(self) -> Batching:
        """How the task's reports fall into batches."""
        return BATCH_MODES[self.configuration.batch_mode]

    def smallest_batch(self, bucket: bytes) -> Batch:
        """Return the smallest batch that can be asked for and holds a bucket."""
        return self.batching.smallest_batch(bucket, self.policy.window)

    def permit_window(self, bucket: bytes) -> int:
        """Return the number of the window whose permits count in a bucket; 0 without windows."""
        window = self.policy.window
        return 0 if window is None else window.number(int.from_bytes(bucket, "big"))

    def permit_window_at(self, time: Time) -> int:
        """Return the number of the window whose permits count at a time."""
        return self.permit_window(self.batching.bucket(time))

    def opening(self, secret: bytes, seconds: int, number: int = 0) -> bytes:
        """Return a secret's permit for the window of a time: the first, unless numbered.

        Raises `ParameterError` if reports of the task need none, or a person has fewer.
        """
        most = self.policy.max_reports_per_person
        if self.permits is None:
            raise ParameterError("permit: the task counts everybody's reports, so it takes none")
        if self.permits.is_signed:
            raise ParameterError("permit: the task's permits are signed, so no code gives one")
        if not 0 <= number < most:
            raise ParameterError(f"number: must be from 0 to {most - 1}, not {number}")
        return self.permits.opening(secret, self.permit_window_at(self.time(seconds)), number)

    def permits_from(self, number: int) -> int:
        """Return when the window of a number begins, in seconds since the epoch."""
        window = self.policy.window
        return 0 if window is None else max(0, window.first_unit_of(number)) * self.time_precision

    def vdaf(self, agg_param: AggregationParameter) -> Prio3:
        """Return the VDAF under a parameter, or raise `InvalidAggregationParameter`."""
        try:
            return self.prio3.aggregating(agg_param)
        except ParameterError as error:
            raise InvalidAggregationParameter(str(error), self.task_id) from error

    @property
    def ctx(self) -> bytes:
        """The application context string of every VDAF call of this task."""
        return self.profile.tag + self.task_id.value

    @property
    def input_share_aad_prefix(self) -> bytes:
        """The beginning of the associated data of this task's input shares."""
        return input_share_aad_prefix(self.task_id, self.configuration_bytes)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the encoded configuration, in hexadecimal, for operators to compare."""
        return hashlib.sha256(self.configuration_bytes).hexdigest()

    @property
    def time_precision(self) -> int:
        """Seconds in one unit of the task's times."""
        return self.configuration.time_precision

    @property
    def min_batch_size(self) -> int:
        """The fewest reports that may be released together."""
        return self.configuration.min_batch_size

    def time(self, seconds: int) -> Time:
        """Return the task's unit of time that holds the time `seconds` since the epoch."""
        return Time.from_seconds(seconds, self.time_precision)


def _check_numbers(configuration: TaskConfiguration, max_reports: int) -> None:
    if configuration.time_precision < 1:
        raise ParameterError("time_precision: must be at least one second")
    if configuration.min_batch_size < 1:
        raise ParameterError("min_batch_size: must be at least 1")
    if not configuration.min_batch_size <= max_reports <= LARGEST_MAX_REPORTS:
        raise ParameterError(
            f"max_reports: must be from min_batch_size ({configuration.min_batch_size}) "
            f"to 2^63 - 1, not {max_reports}"
        )
    if configuration.batch_mode not in BATCH_MODES:
        raise ParameterError(f"batch_mode: only {served_modes()} is served")
    for name, url in (
        ("leader", configuration.leader_aggregator_endpoint),
        ("helper", configuration.helper_aggregator_endpoint),
    ):
        read_endpoint(url, name)


def served_modes() -> str:
    """Return the names of the batch modes that are served, as in a sentence."""
    return " or ".join(mode.name.lower() for mode in BATCH_MODES)


def _check_info_size(configuration: TaskConfiguration, least: int, profile: Profile) -> None:
    size = len(configuration.task_info)
    if size < least:
        raise ParameterError(
            f"task_info: must have {least} to {_MAX_TASK_INFO} bytes in {profile.name}, not {size}"
        )


def info_with_digest(info: str, meaning: str) -> str:
    """Return a `task_info` that binds what the task's numbers mean, and begins with `info`.

    It is cut where it would be longer than DAP allows.
    """
    digest = hashlib.sha256(meaning.encode()).digest()
    ending = _DIGEST_MARK + encode_base64url(digest)
    room = _MAX_TASK_INFO - len(ending)
    return info.encode()[:room].decode(errors="ignore") + ending


def without_digest(info: str) -> str:
    """Return what the task is for, without the digest that binds its meaning."""
    return _DIGEST_ENDING.sub("", info)


def says_made_up(title: str) -> bool:
    """Return whether a title is that of a rehearsal, in which answers are made up."""
    return title.casefold().startswith(MADE_UP.strip().casefold())


def _check_words(configuration: TaskConfiguration, meaning: str) -> None:
    """Refuse text with control characters or the like: a task file is often another party's."""
    texts = {
        "leader": configuration.leader_aggregator_endpoint,
        "helper": configuration.helper_aggregator_endpoint,
        "meaning": meaning,
    }
    if name := first_unsafe_member(texts):
        raise ParameterError(f"{name}: must be one line, without control characters")


def _check_meaning(task_info: bytes, meaning: str) -> None:
    """Refuse a meaning that is not the one that `task_info` binds.

    An aggregator that was given only the configuration has no meaning, and needs none.
    """
    if not meaning:
        return
    if not task_info.endswith(info_with_digest("", meaning).encode()):
        raise ParameterError(
            "meaning: is not the one that task_info was made with, so labels or ranges may have "
            "been changed or swapped since"
        )


def _check_extensions(configuration: TaskConfiguration) -> None:
    unknown = unrecognized(configuration.extensions, TASK_EXTENSIONS)
    if unknown:
        raise ParameterError(f"extensions: task extension {unknown[0]:#06x} is not known")


def _check_attribution(policy: PrivacyPolicy, permits: Permits | None) -> None:
    if not isinstance(policy.mechanism, (PureDpDiscreteLaplace, NoPrivacy)):
        raise ParameterError(
            "attribution: each collection has an epsilon of its own, so the mechanism must be "
            f"{PureDpDiscreteLaplace.name}, or {NoPrivacy.name} for exact results, not "
            f"{policy.mechanism.name}"
        )
    if permits is not None:
        raise ParameterError("permits: reports of a task of attribution have no room for them")


def _check_bundles(profile: Profile, permits: Permits | None) -> None:
    if permits is not None:
        raise ParameterError("permits: are not for collector_selected, where reports come again")
    if profile.framing is not AS_DRAFTED:
        raise ParameterError(
            f"batch_mode: {profile.name} has no place for collector_selected in its messages"
        )


def _permits(
    configuration: TaskConfiguration, profile: Profile, issuer_keys: IssuerKeys | None
) -> Permits | None:
    data = configuration.permits
    if data is None:
        return None
    if configuration.privacy is None:
        raise ParameterError(
            "permits: need a privacy table that is bound into reports, because its window says "
            "which permits count; leave bound = false out"
        )
    if not profile.has_permits:
        raise ParameterError(f"permits: other programs of profile {profile.name} know none")
    try:
        permits = decode(Permits, data)
    except DecodeError as error:
        raise ParameterError(f"extensions: {error}") from error
    if permits.keys != (None if issuer_keys is None else issuer_keys.digest):
        raise ParameterError("permits.keys: must be those whose digest the configuration has")
    return permits


def _policy(data: bytes) -> PrivacyPolicy:
    try:
        return decode_policy(data)
    except DecodeError as error:
        raise ParameterError(f"extensions: {error}") from error
