"""The collector's pages in a real browser: each page, file and button.

axe looks for what keeps people from reading a page; of each visit it is also checked that no policy
was broken, no script was run and no other host was asked.
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from playwright.sync_api import Browser, Page, expect

from aggregator.cli.steward.plan_serve import planner_guest
from aggregator.protocol.task import Task
from tests.support.album import Album
from tests.support.browser import PHONE, Visit, visiting
from tests.support.collector_service import TOKEN
from tests.support.collector_world import (
    EMBEDDED,
    HOSTILE,
    LONG,
    MONDAY,
    REPORTS,
    SCRIPT,
    WEEK,
    CollectorWorld,
    task_asking,
)
from tests.support.serving import serving
from tests.support.surveys import VISITS, task_of

pytestmark = pytest.mark.slow

VISITED = """
[[question]]
name = "department"
text = "Where were you treated?"
kind = "choice"
labels = ["Emergency medicine", "Surgery", "Children and adolescents", "Ophthalmology"]
[[question]]
name = "wait"
text = "How long did you wait?"
kind = "number"
low = 0
high = 240
unit = "minutes"
"""
STRANGE = f"""
[[question]]
name = "hostile"
text = {json.dumps(SCRIPT + EMBEDDED + LONG)}
kind = "choice"
labels = {json.dumps(HOSTILE)}
"""
UNASKED = """
[[question]]
name = "unasked"
kind = "yes-no"
"""
TREATED = [310, 180, 90, 55]


def visited(week: int) -> list[int]:
    """Return what was released of a week's visits: both questions, and waits by department."""
    treated = [each + 7 * week for each in TREATED]
    waited = [580, REPORTS - 580, 24_000 - 500 * week]
    by_treated = [300, 175, 85, 20, REPORTS - 580, 15_000 - 400 * week, 6_000, 2_000, 1_000]
    return [*treated, REPORTS - sum(treated), *waited, *by_treated]


TEN = "".join(
    f'[[question]]\nname = "q{place}"\ntext = "Question {place}?"\nkind = "choice"\n'
    'labels = ["never", "seldom", "sometimes", "often", "always"]\n'
    for place in range(10)
)
UNFOLD = """
document.querySelectorAll("details:nth-of-type(-n+3)").forEach(each => { each.open = true; })
"""
FOCUSED = """
[document.activeElement.innerText || document.activeElement.name || "",
 getComputedStyle(document.activeElement).outlineStyle]
"""
PAGES = ("", "/about", "/batches", "/sheet")


class Desk:
    """The service, and the tasks of a survey with a table by group, and of two others."""

    def __init__(self, world: CollectorWorld, tasks: list[Task], address: str) -> None:
        self.world = world
        self.visits, self.hostile, self.unasked = tasks
        self.address = address

    def paths(self, *tasks: Task, part: int = 0) -> list[str]:
        homes = [f"/questions/{task.task_id}" for task in tasks]
        return [f"{home}{page}?part={part}" for home in homes for page in PAGES]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    visits = task_asking(VISITED, tables='by = "department"')
    hostile, unasked = task_asking(STRANGE, 1), task_asking(UNASKED, 2)
    tasks = [visits, hostile, unasked]
    folder = tmp_path_factory.mktemp("collector")
    world = CollectorWorld(folder, *tasks, guests=[planner_guest()])
    for week in range(5):
        world.finish(visits, MONDAY + week * WEEK, visited(week))
        world.finish(hostile, MONDAY + week * WEEK, [100 + week, 200, 300, 4000])
    for task in (visits, hostile):
        world.fail(task, MONDAY + 6 * WEEK)
        world.ask(task, MONDAY + 7 * WEEK)
    with serving(world.app) as address:
        yield Desk(world, tasks, address)


@pytest.fixture
def visit(browser: Browser, desk: Desk) -> Iterator[Visit]:
    with visiting(browser, desk.address) as visit:
        log_in(visit)
        yield visit


def log_in(visit: Visit) -> Page:
    page = visit.see("/login")
    page.get_by_label("The token of this service").fill(TOKEN)
    page.get_by_role("button", name="Log in").click()
    expect(page).to_have_url(re.compile("/$"))
    return page


def test_only_the_token_opens_the_pages(browser: Browser, desk: Desk) -> None:
    with visiting(browser, desk.address) as visit:
        page = visit.see("/")
        expect(page).to_have_url(re.compile("/login$"))
        page.get_by_label("The token of this service").fill("a guess")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_have_text("This is not the token of this service.")
        log_in(visit)
        expect(page.get_by_role("heading", name="Overview", level=1)).to_be_visible()
        assert page.evaluate("document.cookie") == ""  # a script would not see the session
        page.get_by_role("button", name="Leave").click()
        visit.see("/")
        expect(page).to_have_url(re.compile("/login$"))


@pytest.mark.parametrize("token", [TOKEN, "a guess"])
def test_a_link_of_a_file_logs_in_with_its_token_which_no_address_keeps(
    browser: Browser, desk: Desk, token: str
) -> None:
    link = f"<a href='{desk.address}/login#token={token}'>the pages</a>"
    with visiting(browser, desk.address) as visit:
        page = visit.page
        page.goto(f"data:text/html,{quote(link)}")
        page.get_by_role("link", name="the pages").click()
        heading = "Overview" if token == TOKEN else "Log in"
        expect(page.get_by_role("heading", name=heading, level=1)).to_be_visible()
        expect(page).to_have_url(re.compile(r":\d+/(login)?$"))
        if token != TOKEN:
            expect(page.get_by_role("alert")).to_have_text("This is not the token of this service.")
        assert page.evaluate("performance.getEntriesByType('navigation')[0].name").find("#") < 0


def test_a_link_from_elsewhere_leads_through_the_login_once_and_then_to_its_page(
    browser: Browser, desk: Desk
) -> None:
    question, about, *_ = desk.paths(desk.visits)
    with visiting(browser, desk.address) as visit:
        for path, title in ((question, "Where were you treated?"), (about, "About this number")):
            page = visit.page
            page.goto(f"data:text/html,<a href='{desk.address}{path}&all=yes'>a result</a>")
            page.get_by_role("link", name="a result").click()
            if path == question:
                page.get_by_label("The token of this service").fill(TOKEN)
                page.get_by_role("button", name="Log in").click()
            expect(page).to_have_url(f"{desk.address}{path}&all=yes")
            expect(page.get_by_role("heading", level=1)).to_contain_text(title)


def test_every_page_is_readable_by_everybody(browser: Browser, desk: Desk) -> None:
    with visiting(browser, desk.address) as visit:
        visit.see("/login")
        visit.check_everywhere()
        page = log_in(visit)
        tasks = (desk.visits, desk.hostile)
        wait, *_ = desk.paths(desk.visits, part=1)
        by_group, its_sums, _, its_sheet = desk.paths(desk.visits, part=2)
        unasked, its_about, its_batches, _ = desk.paths(desk.unasked)
        others = [wait, by_group, its_sums, its_sheet, unasked, its_batches, "/docs", "/plan"]
        for path in ["/", *desk.paths(*tasks), *others]:
            visit.see(path)
            page.evaluate(UNFOLD)
            for scheme, width in visit.looks():
                hidden = page.locator("main .wide" if width == PHONE else "main .narrow")
                assert not any(each.is_visible() for each in hidden.all())
                ink, paper = (brightness(page, of) for of in ("color", "backgroundColor"))
                assert (ink > paper) is (scheme == "dark")
        page.goto(its_about)  # of a question without a result
        expect(page.get_by_role("heading", level=1)).to_have_text("Not here")
        visit.check_everywhere()


def test_main_pages_look_as_they_were_last_looked_at(
    browser: Browser, desk: Desk, album: Album
) -> None:
    with visiting(browser, desk.address) as visit:
        visit.see("/login")
        album.compare(visit, "login")
        log_in(visit)
        question, about, batches, sheet = desk.paths(desk.visits)
        pages = {
            "overview": "/",
            "question": question,
            "table": desk.paths(desk.visits, part=2)[0],
            "about": about,
            "batches": batches,
            "sheet": sheet,
            "hostile": desk.paths(desk.hostile)[0],
        }
        for name, path in pages.items():
            visit.see(path)
            album.compare(visit, name)


def test_a_card_leads_to_its_question_and_from_there_everywhere(visit: Visit) -> None:
    page = visit.see("/")
    page.get_by_role("link", name="Where were you treated?", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Where were you treated?")
    page.get_by_text("All figures").click()
    expect(page.get_by_role("row", name=re.compile("^Surgery count 208"))).to_be_visible()
    page.get_by_label("Figure").select_option(label="Surgery (count)")
    page.get_by_role("button", name="Show").last.click()
    expect(page.get_by_role("img", name="count of Surgery over time")).to_be_visible()
    page.locator("summary", has_text="Each count compared with that of").click()
    page.locator("#group").select_option(label="Ophthalmology")
    page.get_by_role("button", name="Compare").first.click()
    said = "Each count compared with that of Ophthalmology"
    expect(page.locator("details[open] > summary", has_text=said)).to_be_visible()
    page.locator("summary", has_text="2026-11-30 to 2026-12-06 compared with").click()
    page.locator("#with").select_option(label="2026-11-02 to 2026-11-08")
    page.get_by_role("button", name="Compare").last.click()
    said = "2026-11-30 to 2026-12-06 compared with 2026-11-02 to 2026-11-08"
    expect(page.locator("details[open] > summary", has_text=said)).to_be_visible()
    page.get_by_role("link", name="About this number").click()
    expect(page.get_by_text(re.compile("^ε 1 a week, 52 in all$"))).to_be_visible()
    page.get_by_role("link", name="The question").click()
    page.get_by_role("link", name="Batches").click()
    page.get_by_role("link", name="2026-11-02 to 2026-11-08: collected").click()
    expect(page).to_have_url(re.compile(rf"#batch-{int(MONDAY.timestamp())}-[^-]+$"))
    page.get_by_role("link", name="Result of 2026-11-02 to 2026-11-08").click()
    page.get_by_text("All figures").click()
    expect(page.get_by_role("row", name=re.compile("^Surgery count 180"))).to_be_visible()


def test_each_file_is_what_its_link_says(visit: Visit, desk: Desk, tmp_path: Path) -> None:
    question, *_ = desk.paths(desk.visits)
    page = visit.see(question)
    links = page.locator("main ul li a")
    names = [re.sub(r"\s+", " ", each) for each in links.all_text_contents()]
    assert names[:3] == ["CSV", "JSON", "Parquet"]
    assert {"SVG of count", "PNG of over time", "SVG of difference of groups"} <= set(names)
    for place, name in enumerate(names):
        if name == "JSON":  # which a browser shows
            answer = visit.page.context.request.get(links.nth(place).get_attribute("href") or "")
            assert len(answer.json()["rows"]) == 5 * 9
            continue
        with page.expect_download() as download:
            links.nth(place).click()
        file = tmp_path / download.value.suggested_filename
        download.value.save_as(file)
        match file.suffix:
            case ".csv":
                rows = list(csv.DictReader(file.read_text().splitlines()))
                assert [row["value"] for row in rows[:2]] == ["310.0", "180.0"]
            case ".parquet":
                assert pl.read_parquet(file)["value"][0] == 310
            case ".svg":
                assert file.read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')
            case ending:
                assert ending == ".png"
                assert file.read_bytes().startswith(b"\x89PNG")


def test_a_batch_is_collected_by_a_button_and_one_that_is_not_over_only_if_meant(
    visit: Visit, desk: Desk
) -> None:
    batches = desk.paths(desk.visits)[2]
    page = visit.see(batches)
    before = desk.world.pending()
    page.get_by_role("button", name="Collect and close 2027-01-04 to 2027-01-10").click()
    row = page.get_by_role("row", name=re.compile("^2027-01-04"))
    expect(row).to_contain_text("waiting")
    assert desk.world.pending() == before + 1
    button = page.get_by_role("button", name="Collect and close 2027-01-11 to 2027-01-17")
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("Refused:")
    assert desk.world.pending() == before + 1
    page.get_by_label("shut out all later answers").check()
    button.click()
    expect(page.get_by_role("row", name=re.compile("^2027-01-11"))).to_contain_text("waiting")
    assert desk.world.pending() == before + 2


def test_everything_can_be_done_with_the_keyboard(browser: Browser, desk: Desk) -> None:
    with visiting(browser, desk.address) as visit:
        page = visit.see("/login")

        def go_to(name: str) -> None:
            for _ in range(60):
                page.keyboard.press("Tab")
                said, outline = page.evaluate(FOCUSED)
                if name in said:
                    assert outline != "none", name
                    return
            pytest.fail(f"the keyboard does not reach {name}")

        go_to("To the content")
        go_to("token")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("/$"))
        go_to("unasked")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("unasked")
        go_to("Batches")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Batches: unasked")
        go_to("meant")
        page.keyboard.press("Space")
        go_to("Collect and close")
        page.keyboard.press("Enter")
        row = page.get_by_role("row", name=re.compile("^2027-01-11"))
        expect(row).to_contain_text("waiting")


def test_hostile_labels_are_text(visit: Visit, desk: Desk) -> None:
    question, *others = desk.paths(desk.hostile)
    page = visit.see(question)
    page.get_by_text("All figures").click()
    for text in HOSTILE:
        shown = page.locator("th bdi", has_text=re.compile(f"^{re.escape(text)}$")).first
        expect(shown).to_be_visible()
        box = shown.bounding_box()
        assert box is not None
        assert box["height"] < 120, "a long label takes the page"
    # A mark that turns the direction of writing turns nothing beside it.
    cells = page.get_by_role("row", name=re.compile("gnorts.*count")).first.locator("td")
    assert cells.first.text_content() == "count"
    left = [box["x"] for each in cells.all() if (box := each.bounding_box()) is not None]
    assert left == sorted(left)
    for path in ["/", question, *others]:
        visit.see(path)
        assert page.locator("script").count() == 0


def test_a_survey_of_ten_questions_by_group_is_a_short_overview(
    browser: Browser, tmp_path: Path
) -> None:
    """Before groups were inside the cards of their questions, it had 7,921 and 14,619 pixels."""
    asked = VISITS.replace("[budget]", 'by = "q0"\n[budget]').replace('"1"', '"8"') + TEN
    task = task_of(asked)
    world = CollectorWorld(tmp_path, task)
    # 120 gave each answer, and of these 24 each answer to the question that makes the groups.
    sums = [*([120] * 5 + [0]) * 10, *(([24] * 5 + [0]) * 5 + [0] * 6) * 9]
    for week in range(2):
        world.finish(task, MONDAY + week * WEEK, sums)
    with serving(world.app) as address, visiting(browser, address) as visit:
        page = log_in(visit)
        assert page.locator(".card").count() == 10
        assert page.locator("main meter").count() == 1
        assert page.locator("rect.bar:visible").count() == 50
        for width, most in ((1200, 2500), (PHONE, 5000)):
            visit.look("light", width)
            height = page.evaluate("document.documentElement.scrollHeight")
            assert height < most, (width, height)
        page.evaluate(
            "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
        )
        assert page.locator(".card table.cross:visible").count() == 9
        visit.check_everywhere()


def test_a_sheet_for_a_meeting_prints_on_one_sheet_of_paper(visit: Visit, desk: Desk) -> None:
    for part in range(3):
        page = visit.see(desk.paths(desk.visits, part=part)[-1])
        for landscape in (False, True):
            made = page.pdf(format="A4", landscape=landscape, print_background=False)
            assert len(re.findall(rb"/Type\s*/Page\b", made)) == 1, (part, landscape)
        page.emulate_media(media="print")
        for hidden in ("header", "form", ".off-paper"):
            assert not any(each.is_visible() for each in page.locator(hidden).all())
        page.emulate_media(media="screen")


def test_a_chart_is_as_long_as_its_numbers(visit: Visit, desk: Desk) -> None:
    page = visit.see(desk.paths(desk.visits)[0])
    bars = page.locator("svg.chart:visible").first.locator("rect.bar")
    widths = [box["width"] for each in bars.all() if (box := each.bounding_box()) is not None]
    values = [each + 28 for each in TREATED]
    assert [each / widths[0] for each in widths] == pytest.approx(
        [each / values[0] for each in values], abs=0.01
    )


def brightness(page: Page, of: str) -> int:
    colour = page.evaluate(f"getComputedStyle(document.body).{of}")
    return sum(map(int, re.findall(r"\d+", colour)))
