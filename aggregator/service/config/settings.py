"""The settings of each party, and what each is for. Secrets are masked.

A setting stands in one of the file's tables, `[service]`, `[keys]`, `[floor]` or `[tuning]`, under
a name that no other table has. The environment overrides it, as `PRIO_` and the name in capitals.
In code, all settings are attributes of one object.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    SecretStr,
    model_validator,
)
from typing_extensions import override

from aggregator.dap.hpke_suites import NAMED, REQUIRED
from aggregator.errors import ConfigurationError
from aggregator.protocol.floor import (
    DEFAULT_MAX_DELTA,
    DEFAULT_MAX_EPSILON,
    DEFAULT_MAX_RHO,
    Floor,
)
from aggregator.protocol.hpke_rotation import MOST_KEYS, HpkeRotation
from aggregator.protocol.reports import (
    CLOCK_SKEW_SECONDS,
    HELPER_MAX_AGE_SECONDS,
    MAX_AGE_SECONDS,
)
from aggregator.service.config.constants import MOST_LINGER_SECONDS
from aggregator.service.config.kinds import (
    Address,
    MaxDelta,
    ObjectStorage,
    OptionalAddress,
    OptionalUrl,
    Populations,
    PositiveSeconds,
    Rational,
    Seconds,
    Suites,
    Token,
    populations,
)

MAX_BYTES_IN_FLIGHT = 64 * 2**20
"""The default for the most bytes that all request bodies may hold together."""

TABLES: Final[Mapping[str, tuple[str, ...]]] = {
    "service": (
        "role",
        "database",
        "release_journal",
        "report_bodies",
        "listen",
        "health_listen",
        "allowed_hosts",
        "word_lists",
        "tls_certificate",
        "tls_key",
        "caller_ca",
        "peer_ca",
        "client_certificate",
        "client_key",
        "insecure_http",
        "defer_jobs",
        "log_format",
        "retention_seconds",
    ),
    "keys": ("store_key_file", "store_key", "token_file", "token"),
    "floor": (
        "min_batch_size_floor",
        "max_epsilon",
        "max_delta",
        "max_rho",
        "limit_required",
        "exact_results",
        "population_required",
    ),
}
"""The settings that an operator has to choose, by the table of the file in which they stand."""

TUNING: Final = "tuning"
"""The table of all other settings, whose defaults serve."""

SCHEDULE: Final = "schedule"
"""The one setting that is a list of tables."""

_LEAST_BYTES = 64 * 2**10
_ROTATION = HpkeRotation()


def beside(database_url: str, setting: str) -> str:
    """Return the path of a store's file, next to which a setting's file lies by default.

    Raises:
        ConfigurationError: The store is not a file, so the setting must be given.
    """
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(database_url)
    except (ArgumentError, ValueError):  # ValueError: the port is not a number
        raise ConfigurationError("database: the store's URL cannot be read") from None
    if url.get_backend_name() != "sqlite":
        raise ConfigurationError(
            f"{setting}: missing; only a store in a file has a place for it by default"
        )
    return url.database or ""


def host_names(address: str, given: str) -> frozenset[str]:
    """Return the names of this machine, the address's host and the given names, in lower case."""
    listening = address.rpartition(":")[0].strip("[]")
    named = (name.strip().lower() for name in given.split(","))
    return frozenset({"localhost", "127.0.0.1", "::1", listening.lower(), *named} - {""})


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


class ServiceSettings(BaseModel):
    """What every service needs."""

    model_config = ConfigDict(
        defer_build=True,  # a party validates its own settings only
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=True,
    )

    database: str = Field(
        repr=False,  # its URL may have a password
        description="The SQLite file of this party's store, or the URL of an SQLite file or a "
        "PostgreSQL database.",
    )
    store_key_file: Path | None = Field(
        None,
        description="The file with the key that encrypts the store's secrets; needed unless "
        "store_key is given. Keep it on another disk and in other backups than the database: "
        "anyone with both can read everything. A service makes it, readable by its owner only, "
        "together with a new database and never later.",
    )
    store_key: SecretStr | None = Field(
        None,
        description="The key itself, base64url, instead of a file. Several are separated by "
        "commas: the first encrypts, all decrypt. Meant for the environment (PRIO_STORE_KEY).",
    )
    listen: Address = Field(
        "127.0.0.1:8000", description="The address at which the service listens, host:port."
    )
    health_listen: OptionalAddress = Field(
        None,
        description="The address at which GET /health and /metrics are answered, host:port, for "
        "those who run the service. Not answered anywhere if not given or empty.",
    )
    health_hosts: str = Field(
        "",
        description="More host names that the health listener answers to, joined by commas, "
        "besides those of this machine and of health_listen. IP addresses are allowed if "
        "health_listen is no loopback address.",
    )
    max_connections: int = Field(
        512,
        ge=1,
        le=65_536,
        description="The most connections open at once, at each address. Above that, one of the "
        "peer that has the most is closed, or else the new one is refused.",
    )
    tls_certificate: Path | None = Field(
        None,
        description="A PEM file with the certificate that the service shows at `listen`, and its "
        "chain; the service then speaks TLS itself. Read again on SIGHUP. The health listener "
        "stays plain HTTP.",
    )
    tls_key: Path | None = Field(
        None,
        description="A PEM file with the private key of tls_certificate, without a password, "
        "readable by its owner only.",
    )
    peer_ca: Path | None = Field(
        None,
        description="A PEM file with the authorities whose certificates we accept from the "
        "services that we call, instead of the system's authorities.",
    )
    client_certificate: Path | None = Field(
        None,
        description="A PEM file with the certificate that we show to the services that we call, "
        "if they ask for one.",
    )
    client_key: Path | None = Field(
        None, description="A PEM file with the private key of client_certificate; as tls_key."
    )
    insecure_http: bool = Field(
        default=False,
        description="Whether plain http:// to other machines is allowed. Everybody on the way "
        "can then read reports, tokens and results.",
    )
    environment_proxy: bool = Field(
        default=False,
        description="Whether requests go through the proxies that HTTPS_PROXY and similar "
        "variables name.",
    )
    log_format: Literal["json", "console"] = Field(
        "console", description="The format of log lines."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least serious lines that are logged."
    )

    @model_validator(mode="after")
    def _have_keys(self) -> Self:
        for certificate in ("tls_certificate", "client_certificate"):
            key = certificate.replace("certificate", "key")
            if (getattr(self, certificate) is None) != (getattr(self, key) is None):
                raise ValueError(f"{certificate}: give both {certificate} and {key}, or neither")
        return self

    @property
    def database_url(self) -> str:
        """The store's URL; a plain path is quoted, since it may contain any character."""
        if "://" in self.database:
            return self.database
        from sqlalchemy.engine import URL

        return URL.create("sqlite", database=self.database).render_as_string()

    @property
    def health_names(self) -> frozenset[str]:
        """The host names that the health listener answers to, in lower case."""
        return host_names(self.health_listen or "", self.health_hosts)


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
    caller_ca: Path | None = Field(
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
        "counts of collected batches are kept; `prio task keep` sets it for one task.",
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
    min_batch_size_floor: int = Field(
        1, ge=1, description="Tasks with a smaller min_batch_size are refused."
    )
    max_epsilon: Rational | None = Field(
        None,
        description="Tasks with a larger epsilon per release, or with none, are refused; exact "
        f'text: "1/2". If not given, only those with one above {DEFAULT_MAX_EPSILON} are, which '
        "excludes noise that protects nobody; you may want a lower limit.",
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
    verification_threads: int | None = Field(
        None, ge=1, description="How many batches are verified at once; one per core if not given."
    )
    traces_endpoint: OptionalUrl = Field(
        None,
        description="The URL to which OpenTelemetry traces are sent by OTLP over HTTP, such as "
        "http://127.0.0.1:4318/v1/traces. None are sent if not given or empty.",
    )

    @property
    def journal_place(self) -> str:
        """The path of the journal of releases, or the URL of its database.

        Raises:
            ConfigurationError: None is given and the store is not a file next to which it could
                lie, or the store's own database is given.
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
        if self.caller_ca is not None and self.tls_certificate is None:
            raise ValueError(
                "caller_ca: needs tls_certificate and tls_key: only TLS has certificates of callers"
            )
        return self

    @property
    def floor(self) -> Floor:
        """The least protection that a task must give for this aggregator to take part."""
        return Floor(
            min_batch_size=self.min_batch_size_floor,
            max_epsilon=self.max_epsilon,
            max_delta=self.max_delta,
            max_rho=self.max_rho,
            limit_required=self.limit_required,
            exact_results=self.exact_results,
            populations=frozenset(populations(self.population_required)),
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
        512, ge=1, le=100_000, description="The most reports in one aggregation job."
    )
    linger_seconds: int = Field(
        2,
        ge=0,
        le=MOST_LINGER_SECONDS,
        description="How long reports wait for others when there are too few for a full "
        "aggregation job.",
    )
    work_interval_seconds: float = Field(
        0.5, gt=0, le=3600, description="How often an idle worker looks for work."
    )
    concurrency: int = Field(
        8, ge=1, le=256, description="How many jobs of each kind one process steps at once."
    )
    helper_concurrency: int | None = Field(
        None,
        ge=1,
        le=256,
        description="How many of these jobs may wait for one helper; at most concurrency, and "
        "half of it if not given. One while the helper does not answer.",
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


class Schedule(BaseModel):
    """A survey whose windows the collector service collects by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    survey: str = Field(description="The survey's title.")
    grace_seconds: Seconds = Field(
        3600, description="How long late answers are waited for after a window's end."
    )
    webhook: HttpUrl | None = Field(
        None, description="An http(s) URL that is called at the end of each collection."
    )
    webhook_token: SecretStr | None = Field(
        None, description="The bearer token that the webhook expects."
    )


class CollectorSettings(ServiceSettings):
    """The collector's settings."""

    role: Literal["collector"] = Field("collector", description="Which party this file is for.")
    token: Token | None = Field(
        None,
        description="The bearer token that requests to the collector service must carry, of at "
        "least 22 characters. Meant for the environment (PRIO_TOKEN).",
    )
    token_file: Path | None = Field(
        None,
        description="A file with the token instead; if not given, the SQLite file's path with "
        ".token added. Made, readable by its owner only, if it does not exist; read again when "
        "it changes. It may hold several tokens, one per line, each of at least 22 characters.",
    )
    allowed_hosts: str = Field(
        "",
        description="More host names that the collector service answers to, joined by commas, "
        "such as that of a proxy in front of it, besides those of this machine and of listen.",
    )
    word_lists: Path | None = Field(
        None,
        description="A folder of lists, each a file NAME.txt in UTF-8 with one string per line, "
        "at most 2^20. The pages try them on [what people wrote](text.md#on-pages). Read each "
        "time one is tried.",
    )
    schedule: tuple[Schedule, ...] = Field(
        (),
        description="[Surveys](surveys.md) whose windows are collected as soon as they are over, "
        "each a table `[[schedule]]`.",
    )

    @property
    def token_path(self) -> Path:
        """The file with the token, unless the settings hold the token.

        Raises:
            ConfigurationError: None is named, and the store is not a file next to which it could
                lie.
        """
        if self.token_file is not None:
            return self.token_file
        return Path(f"{beside(self.database_url, 'token_file')}.token")

    @property
    def hosts(self) -> frozenset[str]:
        """The host names that the service answers to, in lower case."""
        return host_names(self.listen, self.allowed_hosts)


AnySettings = LeaderSettings | HelperSettings | CollectorSettings


def table_of(name: str) -> str | None:
    """Return the table of the file in which a setting stands; None if there is no such setting."""
    for table, names in TABLES.items():
        if name in names:
            return table
    kinds = (LeaderSettings, HelperSettings, CollectorSettings)
    is_one = name != SCHEDULE and any(name in kind.model_fields for kind in kinds)
    return TUNING if is_one else None
