"""How pages of another part of the program are shown in a service: who may look, and the frame."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fastapi import APIRouter, Request, Response

from aggregator.service.web.pages.frame import Link
from aggregator.service.web.pages.html import Html


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """A request that was admitted.

    Attributes:
        links: The links of the page's navigation.
        aside: The end of the navigation, such as the button that ends a session.
    """

    links: Sequence[Link] = ()
    aside: Html | None = None


Admit: TypeAlias = Callable[[Request], Visit | Response]
"""Decides who may look: returns a visit, or else the answer to give instead, or raises."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """Pages of another part, shown in a service.

    Attributes:
        path: The path below which they lie.
        name: The text of the link to them.
        router: Makes their routes, given what decides who is admitted.
    """

    path: str
    name: str
    router: Callable[[Admit], APIRouter]
