"""A survey in three languages by one link: what people read, and what they keep."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Dialog, Page, expect

from aggregator.dap.times import DAY
from aggregator.protocol.task import Task
from aggregator.steward.survey import Meaning
from tests.support.browser import PHONE, TOSSES, Visit, ready, requests_of, says, send, visiting
from tests.support.languages import TRILINGUAL
from tests.support.module_pair import Site, survey_site
from tests.support.surveys import week_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Task]]:
    with survey_site(tmp_path_factory.mktemp("survey"), TRILINGUAL) as found:
        yield found


def see(visit: Visit, site: Site) -> Page:
    visit.page.clock.set_fixed_time(datetime.fromtimestamp(site.pair.clock.now(), UTC))
    # Both toss for the same of the text question's tasks.
    visit.page.add_init_script(TOSSES % 3)
    page = visit.see("/form.html")
    return ready(page)


def speak(page: Page, language: str) -> None:
    page.locator("#language").select_option(label=language)


_DIGITS = {ord(str(digit)): 0x660 + digit for digit in range(10)} | {ord(","): "٬", ord("."): 0x66B}


def arabic(text: str) -> str:
    """Return a text with the digits and marks of Arabic."""
    return text.translate(_DIGITS)


ARABIC = {
    "south": "الجنوب",
    "income": arabic("من 0 إلى أقل من \u20685,000"),
    "hours": ("كم ساعة بقيت هنا", arabic("1,200")),
    "unclear": "دون فاصل للآلاف",
    "clear": arabic("1200.5"),
    "food": "طعام",
    "yes": "نعم",
    "fair": "مقبولة",
    "stars": arabic("4"),
    "bus": ("الحافلة", arabic("3")),
    "train": ("القطار", "\u06f7"),  # as in Persian
    "cliff": "الجنوب / الجرف",
    "send": "إرسال إجاباتي",
    "thanks": "يمكنك طلب كوب من الشاي",
    "counted": "تم احتساب إجاباتك",
    "again": "يمكنك الإجابة من جديد ابتداءً من ٢٠ نوفمبر ٢٠٢٣",
}
FRENCH = {
    "south": "sud",
    "income": "de 0 à moins de \u20685\u202f000",
    "hours": ("Combien d'heures", "1.200"),
    "unclear": "sans séparateur de milliers",
    "clear": "1200,5",
    "food": "repas",
    "yes": "Oui",
    "fair": "moyen",
    "stars": "4",
    "bus": ("bus", "3"),
    "train": ("train", "7"),
    "cliff": "Sud / Falaise",
    "send": "Envoyer mes réponses",
    "thanks": "Demandez un thé au comptoir.",
    "counted": "Vos réponses sont comptées.",
    "again": "Vous pourrez répondre de nouveau à partir du 20 novembre 2023",
}
READERS = (("ar-EG", "rtl", ARABIC), ("fr-FR", "ltr", FRENCH))


def test_one_link_asks_in_arabic_and_in_french_and_nobody_can_tell_who_read_what(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, task = asked
    uploads = []
    for locale, direction, words in READERS:
        with visiting(browser, site.address, width=PHONE, locale=locale) as visit:
            sent = requests_of(visit.page)
            page = see(visit, site)
            assert page.evaluate("[document.documentElement.lang, document.dir]") == [
                locale[:2],
                direction,
            ]
            text = {name: each for name, each in words.items() if isinstance(each, str)}
            for name in ("south", "food", "fair", "stars", "cliff", "yes"):
                page.get_by_label(text[name], exact=True).check()
            page.get_by_label(text["income"]).check()
            for name in ("hours", "bus", "train"):
                label, value = words[name]
                page.get_by_label(label, exact=name != "hours").fill(value)
            page.locator("#q9-skip").check()
            button = page.get_by_role("button", name=text["send"])
            button.click()
            # A thousand to some is one to others, in any digits.
            expect(page.get_by_text(text["unclear"]).first).to_be_visible()
            page.get_by_label(words["hours"][0]).fill(text["clear"])
            button.click()
            says(page, text["counted"])
            expect(page.get_by_text(text["thanks"])).to_be_visible()
            expect(page.locator("#again")).to_contain_text(text["again"])
            uploads.append(
                [(each.method, each.url, len(each.post_data_buffer or b"")) for each in sent]
            )
    assert uploads[0] == uploads[1]
    interval = week_of(task, datetime.fromtimestamp(site.pair.clock.now(), UTC))
    site.pair.clock.advance(7 * DAY)
    values = site.collect(task, interval).values
    sums = {
        part.name: [*values[part.span.first :][: part.span.length]]
        for part in Meaning.of_task(task).sheet.parts
    }
    assert sums == {
        "region": [0, 2, 0],
        "income": [0, 2, 0, 0],
        "hours": [2, 0, 2 * 2401],
        "wishes": [0, 2, 0, 0],
        "again": [2, 0, 0],
        "mark": [0, 2, 0, 0],
        "stars": [0, 0, 0, 2, 0, 0],
        "spent": [2, 0, 6, 14],
        "where": [0, 0, 2, 0, 0],
    }


def test_everybody_can_read_it_in_each_language_with_all_that_it_can_say(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    with visiting(browser, asked[0].address, locale="pl-PL") as visit:
        page = see(visit, asked[0])
        assert page.evaluate("document.documentElement.lang") == "en"  # there is no Polish here
        page.locator("summary").click()
        page.locator("form button").click()
        for language in ("English", "العربية", "Français"):
            speak(page, language)
            visit.check_everywhere()
            page.set_viewport_size({"width": 320, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_the_switch_keeps_what_is_filled_in_and_says_everything_anew(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    with visiting(browser, asked[0].address) as visit:
        page = see(visit, asked[0])
        page.get_by_label("south", exact=True).check()
        page.get_by_label("How many hours").fill("7000")
        page.locator("#q9-text").fill("Rücken")
        send(page)
        links = page.get_by_role("alert").get_by_role("link")
        expect(links.first).to_have_text("What do you earn in a month?")
        page.locator("summary").click()
        sent = requests_of(page)
        speak(page, "Français")
        expect(page).to_have_title("Votre visite")
        expect(links.first).to_have_text("Combien gagnez-vous par mois ?")
        expect(page.get_by_text("Écrivez un nombre de 0 à 1\u202f500")).to_be_visible()
        expect(page.get_by_label("sud", exact=True)).to_be_checked()
        expect(page.locator("#q9-text")).to_have_value("Rücken")
        expect(page.get_by_text("Question 10 sur 10")).to_be_visible()
        expect(page.locator("dd a").last).to_have_attribute(
            "href", "https://hospital.example/fr/donnees"
        )
        expect(page.get_by_text("the patients' council")).to_be_visible()
        speak(page, "العربية")
        expect(page.locator("dd a").last).to_have_attribute(
            "href", "https://hospital.example/privacy"
        )
        expect(page.get_by_text("مجلس المرضى")).to_be_visible()
        speak(page, "English")
        expect(links.first).to_have_text("What do you earn in a month?")
        assert sent == []


def test_what_is_filled_in_is_kept_if_the_person_says_so_and_until_it_is_sent(
    browser: Browser, asked: tuple[Site, Task]
) -> None:
    site, _ = asked
    with visiting(browser, site.address) as visit:
        page = see(visit, site)
        asks: list[str] = []

        def leave(dialog: Dialog) -> None:
            asks.append(dialog.type)
            dialog.accept()

        page.on("dialog", leave)

        def fill() -> None:
            page.get_by_label("south", exact=True).check()
            page.get_by_label("How many hours").fill("7")

        def reload() -> list[str]:
            asks.clear()
            page.reload()
            ready(page)
            visit._faults[:] = [each for each in visit._faults if "dialog" not in each]
            return asks

        kept = page.get_by_label("Keep what I fill in")
        assert reload() == []  # nothing is filled in
        fill()
        assert reload() == ["beforeunload"]
        expect(page.get_by_label("south", exact=True)).not_to_be_checked()
        fill()
        kept.check()
        assert reload() == []
        expect(page.get_by_label("south", exact=True)).to_be_checked()
        expect(page.get_by_label("How many hours")).to_have_value("7")
        expect(kept).to_be_checked()
        page.get_by_label("How many hours").fill("8")
        assert reload() == []
        expect(page.get_by_label("How many hours")).to_have_value("8")
        kept.uncheck()
        assert page.evaluate("localStorage.length") == 0
        reload()
        expect(page.get_by_label("south", exact=True)).not_to_be_checked()
        kept.check()
        for skip in page.locator("fieldset:visible").get_by_label("I'd rather not say").all():
            skip.check()
        assert page.evaluate("localStorage.length") == 1
        send(page)
        says(page, "Your answers are counted.")
        assert page.evaluate("localStorage.length") == 0
        assert reload() == []
