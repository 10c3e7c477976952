"""A pair of aggregators at one address with a page and the browser's module, for JavaScript.

As the pair's task names hosts that do not exist, a script sends what is for them to the folders
`leader` and `helper` of this address.
"""

from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import formatdate
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio
import httpx
import pytest
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import Message, Receive, Scope, Send

from aggregator.client.module import (
    joined_links,
    joined_module,
    joined_signed,
    joined_survey,
    joined_text,
)
from aggregator.collector.results.result import Result
from aggregator.dap.times import DAY, Interval
from aggregator.protocol.requirements import Requirements
from aggregator.protocol.task import Task
from aggregator.service.runtime.key_rotation import new_key
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.storage.tasks.hpke_keys import list_hpke_configs, retire_hpke_key
from aggregator.steward.survey import survey_from_toml
from aggregator.steward.survey.form.page import form_page
from tests.support import pair
from tests.support.pair import Pair
from tests.support.patience import PATIENCE_SECONDS
from tests.support.ports import free_ports
from tests.support.serving import serving
from tests.support.texts import asked_in

if TYPE_CHECKING:
    from aggregator.client.survey.asked_survey import AskedSurvey

T = TypeVar("T")

PAGE = "<!doctype html><html lang=en><title>a page of nothing</title><main>a page</main></html>"
POLICY = "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:"


class Site:
    """What is served.

    Attributes:
        pair: Whose two services lie in the folders.
        address: Where it is served, without a slash at the end.
        posts: How many uploads came.
    """

    def __init__(self, served: Pair) -> None:
        self.pair = served
        self.address = ""
        self.posts = 0
        self.pages: dict[str, str] = {}
        """What lies beside the folders, by name."""
        self.asked: AskedSurvey
        """The survey of its page."""
        self.is_down = False
        """Whether it takes no uploads."""
        self.ahead: dict[str, int | None] = {"leader": 0, "helper": 0}
        """By how many seconds the time that each says is ahead of the pair's clock; None if it says
        none, as where a network strips it."""
        self.ages = {"leader": "", "helper": ""}
        """For how many seconds a cache says that it has kept the answers of each."""
        self.loses: Callable[[int], bool] = lambda _: False
        """Whether the answer to the upload of this number is lost."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        _, folder, *rest = scope["path"].split("/")
        service = {"leader": self.pair.leader, "helper": self.pair.helper}.get(folder)
        if service is None:
            page = self.pages.get(folder)
            answer = _page(folder) if page is None else HTMLResponse(page)
            await answer(scope, receive, send)
            return
        path = "/" + "/".join(rest)
        answered, ahead, age = send, self.ahead[folder], self.ages[folder]

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = {"age": age} if age else {}
                if ahead is not None:
                    added["date"] = formatdate(self.pair.clock.now() + ahead, usegmt=True)
                more = [(name.encode(), value.encode()) for name, value in added.items()]
                message["headers"] = [*message["headers"], *more]
            await answered(message)

        inner = {**scope, "path": path, "raw_path": path.encode()}
        asks = dict(scope["headers"]).get(b"content-length") == b"0"
        if folder != "leader" or rest[-1] != "reports" or asks:
            await service(inner, receive, send)
            return
        self.posts += 1
        if self.is_down:
            await Response(status_code=503)(scope, receive, send)
            return
        if not self.loses(self.posts):
            await service(inner, receive, send)
            return

        async def drop(_message: object) -> None:
            """The leader has stored the report; the client never hears of it."""

        await service(inner, receive, drop)
        await Response(status_code=502)(scope, receive, send)

    def collect(self, task: Task | None = None, interval: Interval | None = None) -> Result:
        """Collect the reports of the pair's time, or of an interval of one of its tasks."""
        if task is None:
            return elsewhere(self.pair.collect)

        async def collect() -> Result:
            # Over the network: here both have the same host, which the pair's own client cannot
            # tell apart.
            async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as self.pair.http:
                return await self.pair.collect(interval)

        self.pair.task = task
        return elsewhere(collect)


def elsewhere(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """Run a coroutine in a thread of its own, since a browser's driver has a loop in this one."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(anyio.run, work).result()


async def other_keys(served: Pair) -> None:
    """Let the leader have another key, and the one before be too old."""
    runtime = served.leader.runtime

    def replace(tx: Transaction) -> None:
        old = list_hpke_configs(tx)
        new_key(tx, runtime.entropy)
        for each in old:
            retire_hpke_key(tx, each.config_id)

    await runtime.database.run("replace keys", replace)
    served.clock.advance(4 * DAY)


@contextmanager
def survey_site(folder: Path, survey: str, **settings: object) -> Iterator[tuple[Site, Task]]:
    """Serve a pair with the task of a survey, and its page as `form.html`, at one address.

    All its tasks have the settings.
    """
    [port] = free_ports(1)
    address = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair, "LEADER_URL", f"{address}/leader/")
        patch.setattr(pair, "HELPER_URL", f"{address}/helper/")
        parties = {"leader": f"{address}/leader/", "helper": f"{address}/helper/"}
        asked = asked_in(survey, **parties, **settings)
        # A test may want no noise from a task that has some: it asks for much epsilon.
        requirements = Requirements(any_epsilon=True)
        site = Site(
            Pair(
                folder,
                asked.first,
                leader_requirements=requirements,
                helper_requirements=requirements,
            )
        )
        site.pair.task = asked.first
        elsewhere(lambda: site.pair.provision(*asked.tasks))
        site.asked = asked
        try:
            with serving(site, port=port, dates=False) as site.address:
                wording = survey_from_toml(survey, datetime.fromtimestamp(pair.NOW, UTC))
                site.pages["form.html"] = form_page(asked, wording)
                yield site, asked.first
        finally:
            elsewhere(site.pair.close)


@contextmanager
def module_site(folder: Path, task: Task) -> Iterator[Site]:
    """Serve a fresh pair while the block lasts."""
    site = Site(Pair(folder, task))
    elsewhere(site.pair.provision)
    try:
        with serving(site, dates=False) as address:
            site.address = address
            yield site
    finally:
        elsewhere(site.pair.close)


def _page(name: str) -> Response:
    policy = {"content-security-policy": POLICY}
    modules = {
        "prio.js": joined_module,
        "prio-links.js": joined_links,
        "prio-signed.js": joined_signed,
        "prio-survey.js": joined_survey,
        "prio-text.js": joined_text,
    }
    if name in modules:
        return PlainTextResponse(modules[name](), media_type="text/javascript")
    if name == "":
        return HTMLResponse(PAGE, headers=policy)
    return PlainTextResponse("", status_code=404)
