"""Who may give a party orders: a test runner, and no page that the operator looks at."""

import anyio
import httpx

from aggregator.cli.local.interop_api import PREFIX, Answer, interop_router
from aggregator.cli.local.interop_tasks import Members
from aggregator.service.web.app import create_app

ORDERS = f"http://127.0.0.1{PREFIX}"


def test_a_web_page_gives_no_orders() -> None:
    given = list[Members]()

    async def take(members: Members) -> Answer:
        given.append(members)
        return {"status": "success"}

    app = create_app("interop", [interop_router({"add_task": take})])

    async def ask(headers: dict[str, str]) -> dict[str, str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as http:
            answer = await http.post(f"{ORDERS}add_task", content="{}", headers=headers)
        found: dict[str, str] = answer.json()
        return found

    for origin in ("https://evil.example", "null"):
        refused = anyio.run(ask, {"Origin": origin, "Content-Type": "text/plain"})
        assert refused == {"status": "error", "error": "Origin: no web page may give orders"}
    assert not given
    assert anyio.run(ask, {}) == {"status": "success"}
    assert given == [{}]
