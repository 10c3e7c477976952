"""Who looks at a page that another part of the service made, and what frames it there."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TypeAlias

from fastapi import APIRouter, Request, Response

from aggregator.service.web.pages.frame import Link
from aggregator.service.web.pages.html import Html


@dataclasses.dataclass(frozen=True, slots=True)
class Visit:
    """A request that may be answered.

    Attributes:
        links: Of the page's navigation.
        aside: The last of it, such as the button that ends a session.
    """

    links: Sequence[Link] = ()
    aside: Html | None = None


Admit: TypeAlias = Callable[[Request], Visit | Response]
"""Says who may look; to whom may not, it returns what is answered instead, or raises."""


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """Pages of another part, shown in a service.

    Attributes:
        path: Where they begin.
        name: Of the link to them.
        router: Makes their routes, for those who are admitted.
    """

    path: str
    name: str
    router: Callable[[Admit], APIRouter]
