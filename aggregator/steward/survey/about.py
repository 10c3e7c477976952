"""Who asks people a survey, and why: what its page shows beside the questions."""

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from aggregator.dap.urls import read_resource

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)
_LONGEST = 4000
"""The most characters of an introduction, or of thanks."""


class About(BaseModel):
    """Who asks, and why: for the page only, and in no task.

    Attributes:
        introduction: Above the questions; may have several paragraphs.
        organiser: Who asks.
        contact: Whom to turn to: an e-mail address, the address of a page, or words.
        privacy_notice: The address of a page.
        thanks: After the answers are given.
        leader: Who runs the leader.
        helper: Who runs the helper.
    """

    model_config = _CONFIG

    introduction: str = Field(default="", max_length=_LONGEST)
    organiser: str = Field(default="", max_length=200)
    contact: str = Field(default="", max_length=200)
    privacy_notice: str = ""
    thanks: str = Field(default="", max_length=_LONGEST)
    leader: str = Field(default="", max_length=100)
    helper: str = Field(default="", max_length=100)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if bool(self.leader) != bool(self.helper):
            raise ValueError("leader and helper: name who runs either, or neither")
        if self.leader and self.leader.casefold() == self.helper.casefold():
            raise ValueError("leader and helper: whoever runs both could read every answer")
        if self.privacy_notice:
            read_resource(self.privacy_notice, "privacy_notice")
            if not self.privacy_notice.startswith("https://"):
                raise ValueError("privacy_notice: must begin with https://")
        return self

    def over(self, original: "About") -> "About":
        """Return this in another language, with what needs no translation from the original."""
        given = {name: value for name, value in self.model_dump().items() if value}
        return original.model_copy(update=given)
