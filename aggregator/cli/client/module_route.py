"""Serves the browser's module at a path that names its version, to pages of any origin."""

from typing import Final

from fastapi import APIRouter, Response, status

from aggregator import __version__
from aggregator.client.module import (
    joined_links,
    joined_module,
    joined_signed,
    joined_survey,
    joined_text,
)

PATH: Final = f"/module/{__version__}/prio.js"

_FILES: Final = {
    "prio.js": joined_module,
    "prio-links.js": joined_links,
    "prio-signed.js": joined_signed,
    "prio-survey.js": joined_survey,
    "prio-text.js": joined_text,
}

_HEADERS: Final = {
    "Access-Control-Allow-Origin": "*",  # pages that name its hash request it so
    "Cross-Origin-Resource-Policy": "cross-origin",
    "X-Content-Type-Options": "nosniff",
    # The bytes of a version never change once it is released, but may until then.
    "Cache-Control": "public, max-age=86400",
}


def module_router() -> APIRouter:
    """Return the route of the module, and of its parts."""
    router = APIRouter(include_in_schema=False)

    @router.api_route("/module/{version}/{name}", methods=["GET", "HEAD"])
    async def module(version: str, name: str) -> Response:
        file = _FILES.get(name)
        if version != __version__ or file is None:
            return Response(status_code=status.HTTP_404_NOT_FOUND)
        return Response(file(), headers=_HEADERS, media_type="text/javascript")

    return router
