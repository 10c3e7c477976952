"""The JavaScript module in Chromium, at real aggregators: each visitor is counted once."""

import json
from collections.abc import Iterator
from fractions import Fraction

import pytest
from playwright.sync_api import Browser, Page

from aggregator.client.module import integrity_of, joined_module
from aggregator.client.text.question import TextQuestion
from aggregator.dap.ids import TaskId
from aggregator.protocol.task_file import task_for_clients
from tests.support.browser import visiting
from tests.support.module_pair import Site, elsewhere, module_site, other_keys
from tests.support.pair import NOW
from tests.support.tasks import LAPLACE, TIME_PRECISION, make_task

pytestmark = pytest.mark.slow

VISITORS = 24
LATER = NOW + 2 * TIME_PRECISION
"""Of another batch than the one that is collected."""

_SEND = """
    globalThis.network = 'up';
    const send = (url, options) => {
        if (network === 'down') throw new TypeError('Failed to fetch');
        for (const [base, folder] of [[task.leader, 'leader'], [task.helper, 'helper']]) {
            if (url.startsWith(base)) return fetch(`/${folder}/${url.slice(base.length)}`, options);
        }
        throw new Error(url);
    };
"""
_BEGIN = f"""async ([document, now, name]) => {{
    const module = await import('/prio.js');
    const task = new module.Task(document);
    {_SEND}
    const outbox = new module.BrowserOutbox(name);
    globalThis.client = new module.Client(task, {{ fetch: send, now: () => 1000 * now, outbox }});
    client.warm(0);
}}"""
_OPEN = f"""async ([description, documents, now, draw]) => {{
    const {{ BrowserOutbox, Task }} = await import('/prio.js');
    const {{ TextClient, TextQuestion }} = await import('/prio-text.js');
    const question = await TextQuestion.read(description, documents.map((each) => new Task(each)));
    const [task] = question.tasks;
    {_SEND}
    const outbox = new BrowserOutbox('tosses');
    const entropy = (size) => size === 8 ? Uint8Array.of(0, 0, 0, 0, 0, 0, 0, draw)
        : crypto.getRandomValues(new Uint8Array(size));
    globalThis.openFor = (person) => TextClient.open(question,
        {{ outbox, person, entropy, fetch: send, now: () => 1000 * now }});
    globalThis.placesOf = (people) =>
        Promise.all(people.map(async (each) => (await openFor(each)).place));
}}"""
_PLACES = "(people) => placesOf(people)"
_ANSWER = """async ([bucket, claim]) => {
    try {
        await client.put(bucket, { claim });
        return 'put';
    } catch (error) {
        return error.name;
    }
}"""
_FLUSH = "client.flush({ now: true })"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with module_site(tmp_path_factory.mktemp("pair"), make_task()) as site:
        yield site


def begin(page: Page, site: Site, name: str, now: int = NOW) -> None:
    page.evaluate(_BEGIN, [task_for_clients(site.pair.task), now, name])


def test_every_visitor_is_counted_once_whatever_the_network_does(
    browser: Browser, site: Site
) -> None:
    site.loses = lambda number: number % 3 == 0
    with visiting(browser, site.address) as visit:
        for visitor in range(VISITORS):
            name = f"visitor {visitor}"
            begin(visit.see("/"), site, name)
            visit.page.evaluate("network = 'down'")
            assert visit.page.evaluate(_ANSWER, [visitor % 4, "survey"]) == "put"
            assert visit.page.evaluate(_FLUSH)["reason"] == "unreachable"
            # The page is closed and opened again: what waits is in the browser.
            begin(visit.see("/"), site, name)
            assert visit.page.evaluate(_ANSWER, [0, "survey"]) == "AlreadyAnswered"
            while (state := visit.page.evaluate(_FLUSH))["waiting"]:
                assert state["reason"] == "busy"
            assert visit.page.evaluate("client.claimed('survey')") == {
                "state": "counted",
                "reason": None,
            }
    assert site.posts > VISITORS
    result = site.collect()
    assert result.report_count == VISITORS
    assert tuple(result.values) == (VISITORS // 4,) * 4


def test_two_tabs_at_once_take_one_answer_and_send_it_once(browser: Browser, site: Site) -> None:
    site.loses = lambda _: False
    with visiting(browser, site.address) as visit:
        other = visit.page.context.new_page()
        other.goto("/")
        for page in (visit.see("/"), other):
            begin(page, site, "tabs", LATER)
        said = [page.evaluate(_ANSWER, [1, "survey"]) for page in (visit.page, other)]
        assert sorted(said) == ["AlreadyAnswered", "put"]
        before = site.posts
        assert visit.page.evaluate(_FLUSH)["waiting"] == 0
        assert other.evaluate(_FLUSH)["waiting"] == 0
        assert site.posts == before + 1


def test_a_page_can_hold_the_module_to_its_hash(browser: Browser, site: Site) -> None:
    add = """(integrity) => new Promise((resolve) => {
        const script = document.createElement('script');
        Object.assign(script, { type: 'module', src: '/prio.js', integrity });
        script.onload = () => resolve('loaded');
        script.onerror = () => resolve('refused');
        document.head.append(script);
    })"""
    text = joined_module()
    with visiting(browser, site.address) as visit:
        visit.see("/")
        assert visit.page.evaluate(add, integrity_of(text)) == "loaded"


def test_two_tabs_at_once_toss_once_and_the_report_goes_to_the_task_that_was_kept(
    browser: Browser, site: Site
) -> None:
    question = TextQuestion("A word?", Fraction(1, 2), 8, 32)
    tasks = [
        make_task(
            {"type": "Prio3Histogram", "length": 32},
            {**LAPLACE, **question.group(place).settings()},
            id=str(TaskId(bytes([place + 1]) * 32)),
            task_info=question.info(place),
        )
        for place in range(8)
    ]

    async def provision() -> None:
        task_of_others = site.pair.task
        for site.pair.task in tasks:
            await site.pair.provision()
        site.pair.task = task_of_others

    elsewhere(provision)
    site.loses = lambda _: False
    public = [json.loads(question.to_json(tasks)), [task_for_clients(each) for each in tasks]]
    with visiting(browser, site.address) as visit:
        other = visit.page.context.new_page()
        other.goto("/")
        first = visit.see("/")
        for draw, page in enumerate((first, other)):
            page.evaluate(_OPEN, [*public, NOW, draw])
        people = [str(person) for person in range(60)]
        assert first.evaluate(_PLACES, people[:20]) == [0] * 20
        assert other.evaluate(_PLACES, people[20:40]) == [1] * 20
        # Both at once: neither waits for the other's answer.
        for page in (first, other):
            page.evaluate("(people) => { globalThis.places = placesOf(people); }", people)
        places = [page.evaluate("places") for page in (first, other)]
        assert places[0] == places[1]
        assert places[0][:40] == [0] * 20 + [1] * 20
        # Two connections of one page interleave each step, as those of two tabs may.
        both = """async () => {
            const { BrowserOutbox } = await import('/prio.js');
            const tabs = [1, 2].map(() => new BrowserOutbox('tosses'));
            return Promise.all(tabs.map((outbox, value) => outbox.keep('one name', value)));
        }"""
        assert first.evaluate(both) in ([0, 0], [1, 1])
        answer = """async ([person, answer]) => {
            const text = await openFor(person);
            const key = await text.put(answer).catch((error) => error.name);
            return [key, await text.client.flush()];
        }"""
        _, sent = first.evaluate(answer, ["7", "Straße"])
        assert (sent["counted"], sent["waiting"]) == (1, 0)
        again, sent = other.evaluate(answer, ["7", "another word"])
        assert (again, sent["counted"]) == ("AlreadyAnswered", 0)


def test_keys_that_changed_are_found_behind_the_browsers_cache(
    browser: Browser, site: Site
) -> None:
    site.loses = lambda _: False
    with visiting(browser, site.address) as visit:
        begin(visit.see("/"), site, "keys", LATER)
        assert visit.page.evaluate(_ANSWER, [2, "survey"]) == "put"
        # Browsers may keep the leader's keys for a day; it takes retired ones for two.
        visit.page.evaluate("fetch('/leader/hpke_config').then((answer) => answer.text())")
        elsewhere(lambda: other_keys(site.pair))
        before = site.posts
        sent = visit.page.evaluate(_FLUSH)
    # They are asked for without the cache, so nothing is sent to the old ones.
    assert (sent["counted"], sent["waiting"], site.posts) == (1, 0, before + 1)
