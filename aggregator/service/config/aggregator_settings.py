"""The settings of both aggregators, of the leader and of the helper."""

import dataclasses
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator
from typing_extensions import override

from aggregator.dap.hpke_suites import NAMED, REQUIRED
from aggregator.errors import ConfigurationError
from aggregator.protocol.hpke_rotation import MOST_KEYS, HpkeRotation
from aggregator.protocol.reports import CLOCK_SKEW_SECONDS, HELPER_MAX_AGE_SECONDS, MAX_AGE_SECONDS
from aggregator.protocol.requirements import (
    DEFAULT_MAX_DELTA,
    DEFAULT_MAX_EPSILON,
    DEFAULT_MAX_RHO,
    Requirements,
    parse_populations,
)
from aggregator.service.config.constants import MOST_LINGER_SECONDS, MOST_OUTGOING, SMALL_JOBS
from aggregator.service.config.kinds import (
    MaxDelta,
    ObjectStorage,
    OptionalUrl,
    Populations,
    PositiveSeconds,
    Rational,
    Seconds,
    Suites,
)
from aggregator.service.config.service_settings import ServiceSettings, beside

MAX_BYTES_IN_FLIGHT = 64 * 2**20
"""The default for the most bytes that all request bodies may hold together."""

_LEAST_BYTES = 64 * 2**10
_ROTATION = HpkeRotation()


def _check_bodies(max_body_size: int, max_bytes_in_flight: int) -> None:
    if max_body_size > max_bytes_in_flight:
        raise ValueError(
            f"max_body_size: must be at most max_bytes_in_flight ({max_bytes_in_flight}), "
            f"not {max_body_size}"
        )


def _check_rotation(rotation: HpkeRotation) -> None:
    if 0 < rotation.age_seconds < rotation.cache_seconds:
        raise ValueError(
            f"hpke_rotation_seconds: must be 0 or at least hpke_cache_seconds "
            f"({rotation.cache_seconds}), not {rotation.age_seconds}"
        )
    if rotation.most_keys > MOST_KEYS:
        raise ValueError(
            f"hpke_rotation_seconds: {rotation.age_seconds} would make {rotation.most_keys} keys "
            f"at once, more than {MOST_KEYS}, since each is kept for twice hpke_cache_seconds"
            f"{' and hpke_wait_seconds' if rotation.wait_seconds else ''}; set it longer"
        )


class AggregatorSettings(ServiceSettings):
    """What both aggregators need."""

    release_journal: str | None = Field(
        None,
        repr=False,  # its URL may have a password
        description="The journal of releases: a file if all processes run on one machine, "
        "otherwise the URL of another database. If not given, it is the SQLite file's path "
        "with .journal added. Better on another disk than the database, and never in its "
        "backups.",
    )
    client_ca: Path | None = Field(
        None,
        description="A PEM file with authorities. Callers that need a token must then also show "
        "a certificate from one of them; other callers need no certificate. Needs "
        "tls_certificate.",
    )
    hpke_cache_seconds: Seconds = Field(
        _ROTATION.cache_seconds, description="How long clients may cache our HPKE configurations."
    )
    hpke_rotation_seconds: Seconds = Field(
        _ROTATION.age_seconds,
        description="How old our HPKE key may become before a new one replaces it; at least "
        "hpke_cache_seconds, or 0 to change keys by command only.",
    )
    hpke_suites: Suites = Field(
        REQUIRED.name,
        description="The HPKE suites of which we have a key each, joined by commas, the "
        "preferred one first. A suite is X25519 or P-256, a slash, and AES-128-GCM, "
        "AES-256-GCM or ChaCha20-Poly1305. DAP requires the default, and some clients support "
        "no other.",
    )
    retention_seconds: Seconds = Field(
        90 * 86_400,
        description="How long ended jobs, answers that nobody can ask for any more, and the "
        "counts of collected batches are kept; `prio task retention` sets it for one task.",
    )
    max_bytes_in_flight: int = Field(
        MAX_BYTES_IN_FLIGHT,
        ge=_LEAST_BYTES,
        description="The most bytes that all request bodies may take up together, shared equally "
        "by the tasks that have requests; at least max_body_size.",
    )
    clock_skew_seconds: Seconds = Field(
        CLOCK_SKEW_SECONDS, description="How far a report's time may be ahead of our clock."
    )
    min_batch_size: int = Field(
        1, ge=1, description="Tasks with a smaller min_batch_size are refused."
    )
    max_epsilon: Rational | None = Field(
        None,
        description="Tasks with a larger epsilon per release, or with none, are refused; exact "
        f'text: "1/2". If not given, only those with one above {DEFAULT_MAX_EPSILON} are, since '
        "so little noise protects nobody; you may want a lower limit.",
    )
    max_delta: MaxDelta = Field(
        DEFAULT_MAX_DELTA,
        description="Tasks with a larger delta per release are refused; with 0, all but those of "
        "pure differential privacy. No task may have 1/100 or more.",
    )
    max_rho: Rational | None = Field(
        None,
        description="Tasks with a larger rho per release, or with none, are refused. If not given, "
        f"only those with Gaussian noise of a rho above {DEFAULT_MAX_RHO} are.",
    )
    limit_required: bool = Field(
        default=False,
        description="Whether tasks with neither a budget nor max_releases are refused.",
    )
    exact_results: bool | None = Field(
        None,
        description="Whether tasks without noise, which promise nothing and say so, are "
        "accepted. If not given, they are, unless max_epsilon or max_rho is set.",
    )
    population_required: Populations = Field(
        "",
        description="The populations, joined by commas, of which tasks must name one; if empty, "
        "every task is accepted. With a budget for each (`prio population`), no task is "
        "outside a budget.",
    )
    in_band_tasks: Path | None = Field(
        None,
        description="A TOML file, readable by its owner only, with what is agreed on with partners "
        "whose tasks come with their first request (docs/operations/in-band.md). If not given, "
        "only an operator adds tasks.",
    )
    verification_threads: int | None = Field(
        None,
        ge=1,
        description="How many batches are verified at once, each until its outcome is stored; one "
        "per core if not given.",
    )
    traces_endpoint: OptionalUrl = Field(
        None,
        description="The URL to which OpenTelemetry traces are sent by OTLP over HTTP, such as "
        "http://127.0.0.1:4318/v1/traces. None are sent if not given or empty.",
    )

    @property
    def journal_place(self) -> str:
        """The path of the journal of releases, or the URL of its database.

        Raises `ConfigurationError` if none is given and the store is not a file next to which it
        could lie, or the store's own database is given.
        """
        if self.release_journal is None:
            return f"{beside(self.database_url, 'release_journal')}.journal"
        if self.release_journal in (self.database, self.database_url):
            raise ConfigurationError(
                "release_journal: must be another database than the store's: a backup of the store "
                "would set the journal back too"
            )
        return self.release_journal

    @property
    def rotation(self) -> HpkeRotation:
        """When HPKE keys change; the leader, which knows what reports wait, needs no extra wait."""
        suites = tuple(NAMED[name.strip()] for name in self.hpke_suites.split(","))
        return HpkeRotation(self.hpke_cache_seconds, self.hpke_rotation_seconds, 0, suites)

    @model_validator(mode="after")
    def _can_ask_for_certificates(self) -> Self:
        if self.client_ca is not None and self.tls_certificate is None:
            raise ValueError(
                "client_ca: needs tls_certificate and tls_key: only TLS has certificates of callers"
            )
        return self

    @property
    def requirements(self) -> Requirements:
        """What this aggregator requires of a task before it takes part."""
        return Requirements(
            min_batch_size=self.min_batch_size,
            max_epsilon=self.max_epsilon,
            max_delta=self.max_delta,
            max_rho=self.max_rho,
            limit_required=self.limit_required,
            exact_results=self.exact_results,
            populations=parse_populations(self.population_required, "population_required"),
        )


class LeaderSettings(AggregatorSettings):
    """The leader's settings.

    Raises:
        ValueError: Two settings contradict each other; both are named.
    """

    role: Literal["leader"] = Field("leader", description="Which party this file is for.")
    report_bodies: ObjectStorage | None = Field(
        None,
        description="Where uploaded reports are kept until they are aggregated, if not in the "
        "database: a folder (file:///...) or a bucket (s3://, gs:// or az://bucket/folder), "
        "with credentials from the environment as for the cloud's own tools. Groups of less "
        "than 32 KiB stay in the database.",
    )
    max_body_size: int = Field(
        MAX_BYTES_IN_FLIGHT, ge=_LEAST_BYTES, description="The most bytes of one upload."
    )
    max_report_age_seconds: int = Field(
        MAX_AGE_SECONDS,
        ge=3600,
        description="How far the time of an uploaded report may be behind our clock. Ids of "
        "older reports are forgotten.",
    )
    upload_group_milliseconds: int = Field(
        0,
        ge=0,
        le=1000,
        description="How long a transaction that stores uploads waits for more of them when it "
        "has few. Every client waits that much longer, and the store writes less often.",
    )
    aggregation_job_size: int = Field(
        4096, ge=1, le=100_000, description="The most reports in one aggregation job."
    )
    linger_seconds: int = Field(
        2,
        ge=0,
        le=MOST_LINGER_SECONDS,
        description="How long reports wait for others when there are too few for a full "
        "aggregation job.",
    )
    bundle_linger_seconds: int = Field(
        10,
        ge=0,
        le=MOST_LINGER_SECONDS,
        description="How long after its last upload a batch that its collector selects takes "
        "others; the first question for its result after that closes it.",
    )
    work_interval_seconds: float = Field(
        0.5, gt=0, le=3600, description="How often an idle worker looks for work."
    )
    concurrency: int = Field(
        4,
        ge=1,
        le=256,
        description="How many jobs of each kind one process steps at once. Eight aggregation jobs "
        "of at most 1 MiB of reports count as one.",
    )
    helper_concurrency: int | None = Field(
        None,
        ge=1,
        le=256,
        description="How many jobs of each kind one process lets wait for one helper, counted in "
        "the same way; at most concurrency, and half of it if not given. Only one while the "
        "helper does not answer.",
    )
    request_timeout_seconds: PositiveSeconds = Field(
        45,
        description="How long the helper may take for one answer, all attempts together. A "
        "worker's lease on a job is a third longer, and renewed while it works; the jobs of a "
        "killed worker wait that long.",
    )

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _check_bodies(self.max_body_size, self.max_bytes_in_flight)
        _check_rotation(self.rotation)
        if self.jobs_per_helper > self.concurrency:
            raise ValueError(
                f"helper_concurrency: must be at most concurrency ({self.concurrency}), "
                f"not {self.helper_concurrency}"
            )
        return self

    @property
    def lease_seconds(self) -> int:
        """How long a worker holds a job unless it renews the lease.

        Longer than a request may take: otherwise a worker whose store is too busy to renew the
        lease would still wait for an answer when another worker takes the job.
        """
        return self.request_timeout_seconds + -(-self.request_timeout_seconds // 3)

    @property
    @override
    def outgoing_connections(self) -> int:
        of_jobs = (SMALL_JOBS + 1) * self.concurrency  # of aggregation and of collection
        return max(super().outgoing_connections, min(of_jobs, MOST_OUTGOING))

    @property
    def jobs_per_helper(self) -> int:
        """How many jobs of each kind may wait for one helper."""
        return self.helper_concurrency or (self.concurrency + 1) // 2


class HelperSettings(AggregatorSettings):
    """The helper's settings; raises what `LeaderSettings` raises."""

    role: Literal["helper"] = Field("helper", description="Which party this file is for.")
    max_body_size: int = Field(
        MAX_BYTES_IN_FLIGHT, ge=_LEAST_BYTES, description="The most bytes of one aggregation job."
    )
    defer_jobs: bool = Field(
        default=False,
        description="Whether aggregation jobs are stored and answered later, by `prio helper "
        "work` or `prio helper serve --work`, while the leader is told to come again: for a "
        "machine too slow to answer in time. Each task may have max_bytes_in_flight of "
        "requests waiting.",
    )

    max_report_age_seconds: int = Field(
        HELPER_MAX_AGE_SECONDS,
        ge=3600,
        description="How far a report's time may be behind our clock: the leader's own limit "
        "plus the time that reports may wait there. Ids of older reports are forgotten.",
    )
    hpke_wait_seconds: Seconds = Field(
        _ROTATION.wait_seconds,
        description="How long reports may wait at a leader before they reach us. A retired HPKE "
        "key is kept for that long after the last client can have used it.",
    )

    @property
    @override
    def rotation(self) -> HpkeRotation:
        """When HPKE keys change."""
        return dataclasses.replace(super().rotation, wait_seconds=self.hpke_wait_seconds)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        _check_bodies(self.max_body_size, self.max_bytes_in_flight)
        _check_rotation(self.rotation)
        return self
