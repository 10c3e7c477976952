"""Who asks, and in which languages: what a page has besides what its task is bound to."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from aggregator.cli.local.tasks import is_asked
from aggregator.cli.steward.survey_texts import write_survey
from aggregator.errors import ParameterError
from aggregator.steward.survey import Survey, survey_from_toml
from aggregator.steward.survey.beside import unbound, wording_of
from aggregator.steward.survey.form import translations
from aggregator.steward.survey.form.page import fingerprint, form_page
from aggregator.steward.survey.form.translations import SHIPPED, WORDS, shipped, words_in
from aggregator.steward.survey.said import Own, names_in
from aggregator.steward.survey.wording import Wording
from tests.support.commands import run_here
from tests.support.languages import TRILINGUAL
from tests.support.surveys import FIRST, VISITS, department, task_of
from tests.support.tasks import PARTIES
from tests.support.texts import asked_in

FRENCH = """
[translations.fr]
title = "Visites"
[translations.fr.question]
department = { text = "Quel service ?", labels = ["chirurgie", "médecine"] }
"""
THANKS = '[translations.fr.about]\nthanks = "Merci"\n'
HOSTILE = "</script><script>alert(1)</script>"


def survey(more: str = "", visits: str = VISITS) -> Survey:
    return survey_from_toml(visits + department() + more, FIRST)


def meaning(text: str) -> str:
    return task_of(text).meaning


@pytest.mark.parametrize("language", SHIPPED)
def test_the_words_of_each_language_are_complete_and_have_the_same_names_in_braces(
    language: str,
) -> None:
    words = shipped(language)
    assert list(words) == list(WORDS)
    assert {name: names_in(text) for name, text in words.items()} == {
        name: names_in(text) for name, text in WORDS.items()
    }
    assert words["dir"] == ("rtl" if language == "ar" else "ltr")
    # The faults quote what is to be chosen.
    for name in ("fault_one", "fault_number", "fault_numbers", "fault_text"):
        assert words["skip"] in words[name]
    same = {name for name, text in words.items() if text == WORDS[name]}
    assert language == "en" or same <= {"dir", "contact", "no"}


@pytest.mark.parametrize("language", SHIPPED)
def test_no_string_needs_a_plural(language: str) -> None:
    """A number stands before no noun: languages have up to six plurals, and the page has none."""
    for name in ("choose_at_most", "fault_most", "what_text_letters"):
        text = shipped(language)[name]
        assert re.search(r"\{(most|count)\}\W*([).،,]|$)", text), text


def test_every_file_of_words_is_known() -> None:
    folder = Path(translations.__file__).parent / "words"
    assert {file.stem for file in folder.iterdir()} == {*SHIPPED}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"thank": "x"}, "words: el: there is no 'thank'; did you mean thanks"),
        ({"number": "from {low}"}, "number: must have these names in braces: high, low"),
        ({"thanks": "{low}"}, "thanks: must have these names in braces: none"),
        ({"dir": "up"}, "dir: must be ltr or rtl"),
        ({"thanks": "x"}, "words: el: name, dir, .*: missing; the package has .* ar, de, en, es"),
    ],
)
def test_words_that_would_not_fit_are_refused_by_name(given: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        words_in("el", given)


def test_a_survey_may_have_other_words_than_those_that_are_shipped() -> None:
    words = survey('[words.fr]\nsend = "Envoie"\n' + FRENCH).words_of("fr")
    assert words["send"] == "Envoie"
    assert words["yes"] == "Oui"
    assert words_in("de-CH") == shipped("de")
    with pytest.raises(ParameterError, match="words: the survey is not asked in de"):
        survey('[words.de]\nsend = "Los"\n')
    with pytest.raises(ParameterError, match="language"):
        survey(visits='language = "English"\n' + VISITS)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('title = "Visites"\n', "", "translations.fr.title: missing"),
        ('text = "Quel service ?", ', "", "fr.question.department.text: missing"),
        (', labels = ["chirurgie", "médecine"]', "", "question department: labels: missing"),
        ('"chirurgie", "médecine"', '"chirurgie"', "labels: must be 2, in the same order, not 1"),
        ('"médecine"', '"chirurgie"', "department: labels: 'chirurgie' is there twice"),
        ('"médecine"', '""', "department: labels: one label is empty"),
        ("] }", '], unit = "km" }', "department: unit: the question has none"),
        ("department =", "departement =", "no 'departement'; did you mean department"),
        ("department =", "departement =", "question department: missing"),
        ("translations.fr", "translations.en", "en is the survey's own language"),
        ("translations.fr", "translations.el", "words: el: .*: missing"),
        ("translations.fr", "translations.French", "translations"),
        ('"Visites"\n', f'"Visites"\n{THANKS}', "thanks: the survey has none"),
    ],
)
def test_a_translation_is_complete_or_refused_by_what_it_lacks(
    before: str, after: str, message: str
) -> None:
    survey(FRENCH)
    with pytest.raises(ParameterError, match=message):
        survey(FRENCH.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('introduction = "نريد', 'contact = "نريد', "about: introduction: missing"),
        (', unit = "بيزو"', "", "question income: unit: missing"),
        ('column = [{ name = "الحافلة", unit = "يورو" }, ', "column = [", "column: must be 2"),
        ('"الحافلة", unit = "يورو"', '"الحافلة"', "spent: column الحافلة: unit: missing"),
        (', { label = "البحيرة" }]', "]", "where: regions: must have as many regions below each"),
        ("again = { text", "agein = { text", "question again: missing"),
        ("hurts = {", 'hurts = { labels = ["x"],', "labels: the question has none"),
    ],
)
def test_every_kind_of_question_is_translated_by_place(
    before: str, after: str, message: str
) -> None:
    assert before in TRILINGUAL
    with pytest.raises(ParameterError, match=re.escape(message)):
        survey_from_toml(TRILINGUAL.replace(before, after, 1), FIRST)


def test_labels_that_are_swapped_in_any_language_are_refused() -> None:
    asked = asked_in(VISITS + department() + FRENCH)
    page = form_page(asked, survey(FRENCH))
    swapped = FRENCH.replace('"chirurgie", "médecine"', '"médecine", "chirurgie"')
    for text in (FRENCH.replace("Visites", "Visite"), swapped):
        with pytest.raises(ParameterError, match="translations: fr: is another than the survey's"):
            form_page(asked, survey(text))
    with pytest.raises(ParameterError, match="fr: missing, and the survey's tasks are bound"):
        form_page(asked)
    # Another order in the file, or what the page alone shows, is no other translation.
    about = '[translations.fr.about]\norganiser = "Hôpital"\n'
    other = form_page(asked, survey(FRENCH + about + '[about]\norganiser = "Hospital"\n'))
    assert fingerprint(other) != fingerprint(page)


def test_who_asks_is_no_part_of_the_task_and_a_translation_is() -> None:
    about = '[about]\nintroduction = "We ask.\\nYou answer."\nthanks = "Good bye."\n'
    plain = VISITS + department()
    assert meaning(plain + about) == meaning(plain) == meaning('language = "es"\n' + plain)
    assert meaning(plain + FRENCH) != meaning(plain)
    of_both = '[about]\nthanks = "Bye."\n' + FRENCH + '[translations.fr.about]\nthanks = "Salut."\n'
    assert meaning(plain + FRENCH) == meaning(plain + of_both)


def test_a_translation_that_was_added_later_is_said_to_be_unbound() -> None:
    asked = asked_in(VISITS + department())
    late = VISITS + department() + FRENCH
    assert unbound(wording_of(late, asked, FIRST), asked) == ["fr"]
    bound = asked_in(late)
    assert unbound(wording_of(late, bound, FIRST), bound) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace('"Visits"', '"Visit"'), "title: must be as people are asked"),
        (lambda text: text.replace('"patients"', '"staff"'), "asked: must be"),
        (lambda text: text.replace('"surgery", "medicine"', '"medicine", "surgery"'), "question: "),
        (lambda text: text + '[[question]]\nname = "a"\nkind = "yes-no"\n', "question: must be"),
    ],
)
def test_the_file_beside_a_task_must_ask_what_the_task_asks(
    change: Callable[[str], str], message: str
) -> None:
    text = VISITS + department()
    assert wording_of(text.replace("windows = 52", "windows = 5"), asked_in(text), FIRST)
    with pytest.raises(ParameterError, match=message):
        wording_of(change(text), asked_in(text), FIRST)


@pytest.mark.parametrize(
    ("about", "message"),
    [
        ('privacy_notice = "javascript:alert(1)"', "privacy_notice: must be"),
        ('privacy_notice = "http://a.example/"', "privacy_notice: must begin with https://"),
        ('leader = "one"', "name who runs either, or neither"),
        ('leader = "One"\nhelper = "one"', "whoever runs both could read every answer"),
        ('organizer = "x"', "organizer: no such setting here; did you mean organiser"),
        ('organiser = "x\\ny"', "organiser: must be without control characters"),
        ('thanks = "\\u202e"', "thanks: must be without control characters"),
    ],
)
def test_who_asks_is_refused_where_it_could_mislead(about: str, message: str) -> None:
    with pytest.raises(ParameterError, match=re.escape(message)):
        survey(f"[about]\n{about}\n")


def test_no_text_of_a_steward_can_write_into_the_page_or_be_a_script() -> None:
    hostile = FRENCH.replace("Visites", HOSTILE).replace("chirurgie", HOSTILE)
    about = "".join(
        f'{name} = "{HOSTILE}{name}"\n'
        for name in ("introduction", "organiser", "contact", "thanks", "leader", "helper")
    )
    more = f"[about]\n{about}{hostile}[translations.fr.about]\nthanks = '''{HOSTILE}'''\n"
    more += f"introduction = '''{HOSTILE}'''\n"
    text = VISITS + department() + more
    page = form_page(asked_in(text), survey_from_toml(text, FIRST))
    assert "<script>alert" not in page
    assert page.count("<script") == page.count("</script>") == 2
    for contact in ("javascript:alert(1)", "a@b.example?cc=c@d.example", "https://a b"):
        page = form_page(asked_in(VISITS + department()), survey(f'[about]\ncontact = "{contact}"'))
        assert " data-h=" not in page


class _Elements(HTMLParser):
    """Finds which texts stand in an element that has the direction of its own letters."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[tuple[str, bool]] = []
        self._is_isolated = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_isolated = tag == "bdi" or ("dir", "auto") in attrs

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((data, self._is_isolated))


def test_whatever_the_steward_wrote_stands_by_itself() -> None:
    """Right to left a neighbour would move its question mark, or its numbers, to the other end."""
    written = survey_from_toml(TRILINGUAL, FIRST)
    options = [each for asked in written.questions for each in asked.question.options]
    own = {each.text for each in options if isinstance(each, Own)}
    own |= {asked.question.text for asked in written.questions}
    own |= {written.title, *written.about.model_dump().values(), "euros", "hours", "bus", "train"}
    found = _Elements()
    page = form_page(asked_in(TRILINGUAL), written)
    found.feed(page.split("</style>")[1].split("<script")[0])
    seen = {text for text, is_isolated in found.texts if is_isolated}
    assert own <= seen
    assert not own & {text for text, is_isolated in found.texts if not is_isolated}
    # A range has the survey's unit, and maybe a sign.
    (first, *_) = [text for text, _ in found.texts if text.endswith("pesos\u2069")]
    assert first == "\u2068-100\u2069 to under \u20680 pesos\u2069"


def test_one_page_has_all_languages_and_is_the_same_whatever_is_read() -> None:
    page = form_page(asked_in(TRILINGUAL), survey_from_toml(TRILINGUAL, FIRST))
    assert page == form_page(asked_in(TRILINGUAL), survey_from_toml(TRILINGUAL, FIRST))
    for text in ("زيارتك", "Votre visite", "Your visit", "الجرف", "Falaise", "إرسال إجاباتي"):
        assert text in page
    assert re.findall(r'<option value="\d" lang="(\w+)" dir="(\w+)"', page) == [
        ("en", "ltr"), ("ar", "rtl"), ("fr", "ltr"),
    ]  # fmt: skip
    assert 'id="language"' not in form_page(asked_in(VISITS + department()))
    spanish = form_page(asked_in(VISITS + department()), Wording(language="es-MX"))
    assert '<html lang="es-MX" dir="ltr">' in spanish
    assert "Enviar mis respuestas" in spanish


def test_check_prints_what_is_said_at_each_place_in_every_language(tmp_path: Path) -> None:
    file = tmp_path / "survey.toml"
    file.write_text(TRILINGUAL, encoding="utf-8")
    done = run_here("survey", "check", file)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    at = lines.index("where 3") + 1
    assert lines[at : at + 3] == [
        "  en  South / Cliff",
        "  ar  الجنوب / الجرف",
        "  fr  Sud / Falaise",
    ]
    assert "title" in lines
    assert "hurts: what people write in different languages is counted apart" in done.stdout


def test_a_task_is_made_with_the_file_from_which_its_page_has_the_rest(tmp_path: Path) -> None:
    file, out = tmp_path / "survey.toml", tmp_path / "made"
    file.write_text(VISITS + department() + FRENCH, encoding="utf-8")
    done = run_here("survey", "new", file, "--out", out, *PARTIES)
    assert done.returncode == 0, done.stderr
    assert (out / "survey.toml").read_text(encoding="utf-8") == file.read_text(encoding="utf-8")
    made = run_here("survey", "form", out / "task.toml")
    assert "chirurgie" in made.stdout
    assert "bound" not in made.stderr
    german = FRENCH.replace(".fr", ".de")
    (out / "survey.toml").write_text(VISITS + department() + FRENCH + german, encoding="utf-8")
    made = run_here("survey", "form", out / "task.toml")
    assert "de: added after the task was made, which is not bound to it" in made.stderr
    (out / "survey.toml").unlink()
    refused = run_here("survey", "form", out / "task.toml")
    assert refused.returncode == 2
    assert "fr: missing" in refused.stderr


def test_what_only_the_page_shows_is_replaced_where_a_survey_is_tried(tmp_path: Path) -> None:
    text = VISITS + department() + FRENCH
    write_survey(task_of(text), {}, tmp_path / "made", {"survey.toml": text})
    about = '[about]\norganiser = "Hospital"\n'
    german = FRENCH.replace(".fr", ".de")
    for changed in (text + about, text + german, text):
        assert is_asked(tmp_path / "made", changed)
        assert (tmp_path / "made" / "survey.toml").read_text(encoding="utf-8") == changed
    with pytest.raises(ParameterError, match="fr: is another than the survey's tasks are bound to"):
        is_asked(tmp_path / "made", text.replace("chirurgie", "Chirurgie"))
    assert is_asked(tmp_path / "made", text.replace('"surgery"', '"Surgery"')) is None
    assert (tmp_path / "made" / "survey.toml").read_text(encoding="utf-8") == text
