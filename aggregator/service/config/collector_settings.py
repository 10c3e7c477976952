"""The settings of the collector's service, and the surveys that it collects by itself."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from aggregator.service.config.kinds import OptionalResource, Seconds, TimeZone, Token
from aggregator.service.config.service_settings import ServiceSettings, beside, host_names
from aggregator.written_times import Times, zone_named


class Schedule(BaseModel):
    """A survey whose windows the collector service collects by itself."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    survey: str = Field(description="The survey's title.")
    grace_seconds: Seconds = Field(
        3600, description="How long late answers are waited for after a window's end."
    )
    webhook: OptionalResource = Field(
        None, description="An http(s) URL that is called when a collection of its own task ends."
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
    permit_lists: Path | None = Field(
        None,
        description="A folder of lists of [personal links](invitations.md), each a file NAME.list "
        "as `prio survey invite` wrote it (permits.list under any name). Pages and their files "
        "then say how many were invited. Read again when a file changes.",
    )
    time_zone: TimeZone = Field(
        "UTC",
        description="The time zone in which pages show times and read them from forms, such as "
        "Europe/Berlin. The windows of surveys stay as they are.",
    )
    schedule: tuple[Schedule, ...] = Field(
        (),
        description="[Surveys](surveys.md) whose windows are collected as soon as they are over, "
        "each a table `[[schedule]]`.",
    )

    @property
    def token_path(self) -> Path:
        """The file with the token, unless the settings hold the token.

        Raises `ConfigurationError` if none is named, and the store is not a file next to which it
        could lie.
        """
        if self.token_file is not None:
            return self.token_file
        return Path(f"{beside(self.database_url, 'token_file')}.token")

    @property
    def times(self) -> Times:
        """How pages write times."""
        return Times(zone_named(self.time_zone, "time_zone"))

    @property
    def hosts(self) -> frozenset[str]:
        """The host names that the service answers to, in lower case."""
        return host_names(self.listen, self.allowed_hosts)
