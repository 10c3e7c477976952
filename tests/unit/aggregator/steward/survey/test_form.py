import base64
import hashlib
import re
import shutil
import tomllib
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from aggregator import __version__
from aggregator.cli.client.module_route import PATH
from aggregator.cli.steward import survey_form
from aggregator.cli.steward.form_site import form_site, surveys_in
from aggregator.cli.steward.survey_texts import public_files
from aggregator.client.module import joined_module, joined_text
from aggregator.dap.profile import PROFILES
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.survey import plan, survey_from_toml, task_tables
from aggregator.steward.survey.form.page import fingerprint, form_page, policy_of
from aggregator.steward.survey.form.parts import MOST_OPTIONS
from aggregator.steward.survey.form.translations import WORDS
from aggregator.steward.survey.wording import Wording
from tests.support.commands import run_here
from tests.support.processes import ROOT
from tests.support.serving import serving
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import make_task
from tests.support.texts import WORD, asked_in, texts_in

HOSTILE = "</script><script>alert(1)</script>"


def page_of(asked: str, **words: str) -> str:
    return form_page(asked_in(VISITS + asked), Wording(words={"en": words}))


def test_the_page_is_the_same_for_everybody_who_makes_it() -> None:
    page = page_of(department())
    assert page == page_of(department())
    assert fingerprint(page) != fingerprint(page_of(department(("medicine", "surgery"))))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_survey_of_any_profile_has_a_page_that_names_it(profile: str) -> None:
    page = form_page(asked_in(VISITS + department() + WORD, profile=profile))
    assert page.count(f'"profile":"{profile}"') == (0 if profile == "dap-18" else 9)


def test_a_task_of_which_a_person_is_in_one_has_no_page_of_its_own(tmp_path: Path) -> None:
    _, (_, second, *_) = texts_in(VISITS + department() + WORD)["word"]
    # Nor has a survey whose task somebody has put into a group.
    survey = survey_from_toml(VISITS + department())
    tables = task_tables(survey, plan(survey))
    privacy = {**tables.privacy, "group": "visits", "group_place": 1}
    said = "group: the task has place 1 in .* name the task.toml or survey.json of the survey"
    for task in (second, make_task(tables.vdaf, privacy, **tables.settings)):
        (tmp_path / "task.toml").write_text(task_to_toml(task), encoding="utf-8")
        refused = run_here("survey", "form", tmp_path / "task.toml")
        assert refused.returncode == 2
        assert re.search(said, " ".join(refused.stderr.split()))


def test_a_survey_cannot_write_into_its_page() -> None:
    hostile = WORD.replace("What hurts?", HOSTILE)
    page = page_of(department((HOSTILE, "b"), text=HOSTILE) + hostile, send=HOSTILE)
    assert "<script>alert" not in page
    assert page.count("<script") == 2
    assert page.count("</script>") == 2


@pytest.mark.parametrize("more", ["", WORD])
def test_its_policy_names_what_it_runs_and_whom_it_talks_to(more: str) -> None:
    page = page_of(department() + more)
    for kind, tag in (("script-src", '<script type="module">'), ("style-src", "<style>")):
        text = page.split(tag)[1].split("</")[0]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} &#x27;sha256-{digest}&#x27;" in page
    assert "connect-src https://helper.example https://leader.example;" in page
    links = set(re.findall(r'(?:src|href)="([^"#]+)', page))
    assert links == {"data:,"}


def test_the_page_says_that_nobody_sees_which_questions_were_answered() -> None:
    page = page_of(department())
    assert "\u2068leader.example\u2069 can see that it took part" in page
    assert "but not which questions you answered" in page
    assert "remembers that you answered, not what" in page


def test_only_a_page_that_asks_for_words_has_their_module_and_says_what_that_costs() -> None:
    page, other = page_of(department() + WORD), page_of(department())
    written = ("class TextClient", "tosses", "in your own words", 'type="text"')
    for said in (*written, "an epsilon of 1.</li>", "Of this epsilon, 0.25 is for what you write"):
        assert said in page.split("<script type=")[0] + page.split('<script type="module">')[1]
    assert (
        "by a factor of at most 2.72, each time you answer: that is an epsilon of 1.</li>" in other
    )
    assert "class TextClient" not in other
    assert "Questions that you would answer" not in other.split("<script")[0]
    # A browser may have what is checked or completed for its user sent to its maker.
    (field,) = re.findall("<input [^>]*maxlength[^>]*>", page)
    for kept in ('spellcheck="false"', 'writingsuggestions="false"', 'autocomplete="off"'):
        assert kept in field


def test_where_all_questions_are_text_the_page_has_no_other_and_says_what_they_cost() -> None:
    page = page_of(WORD.replace('"1/4"', '"1"'))
    assert page.count("<fieldset") == 1
    assert '"task":null' in page
    assert '"questions":[]' in page
    assert "an epsilon of 1.</li>" in page
    assert "Of this epsilon" not in page.split("<script")[0]
    assert page == page_of(WORD.replace('"1/4"', '"1"'))


def test_a_question_that_not_everybody_is_asked_is_hidden_at_first() -> None:
    more = '[[question]]\nname = "why"\nkind = "yes-no"\nask_if = { department = "surgery" }\n'
    first, second = page_of(department() + more).split("<fieldset")[1:]
    assert " hidden>" not in first.split("<legend")[0]
    assert " hidden>" in second.split("<legend")[0]


def test_every_word_of_the_page_can_be_another() -> None:
    # Names in braces stay; everything else is another word than in English.
    words = {
        name: "Ω" + "".join(re.findall(r"\{\w+\}", text))
        for name, text in WORDS.items()
        if name != "dir"
    }
    number = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 9\n'
    some = '[[question]]\nname = "age"\nkind = "multiple"\nlabels = ["x", "y"]\n'
    bins = '[[question]]\nname = "age"\nkind = "bins"\nedges = [0, 18, 65]\n'
    text = department() + WORD
    wording = Wording(language="el", words={"el": words | {"dir": "rtl"}})
    for question in (department(), number, number + 'step = "1/2"\n', some, bins, text):
        page = form_page(asked_in(VISITS + question), wording)
        assert '<html lang="el" dir="rtl">' in page
        body = page.split("<main>")[1].split("</main>")[0]
        for text in WORDS.values():
            assert len(text) < 4 or text not in body, text


@pytest.mark.slow
def test_a_question_with_more_labels_than_anybody_reads_is_named() -> None:
    labels = [str(number) for number in range(MOST_OPTIONS + 1)]
    with pytest.raises(ParameterError, match=f"department: a page shows at most {MOST_OPTIONS}"):
        page_of(department(labels))
    column = '[[question.column]]\nname = "number {}"\nhigh = 3\n'
    columns = "".join(column.format(number) for number in range(MOST_OPTIONS + 1))
    with pytest.raises(ParameterError, match="spent: a page shows at most 200 columns, not 201"):
        page_of('[[question]]\nname = "spent"\nkind = "vector"\n' + columns)


def test_a_page_that_is_served_is_compared_with_the_one_that_it_should_be(tmp_path: Path) -> None:
    tasks, out = tmp_path / "task.toml", tmp_path / "form.html"
    tasks.write_text(task_to_toml(task_of(VISITS + department())), encoding="utf-8")
    made = run_here("survey", "form", tasks, "--out", out)
    assert made.stderr.strip() == f"SHA-256 {fingerprint(out.read_text('utf-8'))}"

    async def serve(_: Request) -> Response:
        return FileResponse(out)

    with serving(Starlette(routes=[Route("/form.html", serve)])) as address:

        def check(path: str, status: int) -> str:
            done = run_here("survey", "form", tasks, "--check", f"{address}/{path}")
            assert done.returncode == status, done.stderr
            return done.stdout + done.stderr

        assert "the same page" in check("form.html", 0)
        out.write_text(out.read_text("utf-8").replace("surgery", "Surgery"), encoding="utf-8")
        assert "another page" in check("form.html", 1)
        out.write_bytes(out.read_bytes() + b"x" * 10**6)
        assert "another page" in check("form.html", 1)
        assert "404" in check("elsewhere", 3)


def test_the_survey_of_the_readme_has_a_page() -> None:
    survey = (ROOT / "examples" / "ways-to-work.toml").read_text(encoding="utf-8")
    assert form_page(asked_in(survey)).count("<fieldset") == 3


def test_a_page_is_served_under_its_policy_and_kept_by_no_cache(tmp_path: Path) -> None:
    many = department([str(number) for number in range(MOST_OPTIONS + 1)])
    for name, asked in (("visits", department() + WORD), ("many", many)):
        folder, texts = tmp_path / name, texts_in(VISITS + asked)
        public = {"task.toml": task_to_toml(task_of(VISITS + asked))}
        for word, each in texts.items():
            found = public_files(*each)
            public |= {f"text/{word}/{file}": text for file, text in found.items()}
        for file, text in public.items():
            (folder / file).parent.mkdir(exist_ok=True, parents=True)
            (folder / file).write_text(text, encoding="utf-8")
    with serving(form_site(lambda: surveys_in(tmp_path, survey_form.page_of))) as address:
        served = httpx.get(f"{address}/visits", trust_env=False)
        assert served.text == page_of(department() + WORD)
        policy = f"{policy_of(served.text)}; frame-ancestors 'none'"
        assert served.headers["content-security-policy"] == policy
        assert served.headers["x-content-type-options"] == "nosniff"
        assert served.headers["cache-control"] == "no-store"
        assert httpx.head(f"{address}/visits", trust_env=False).status_code == 200
        # What only the page shows may be changed while it is served.
        about = VISITS + department() + WORD + '[about]\norganiser = "Saint Mary"\n'
        (tmp_path / "visits" / "survey.toml").write_text(about, encoding="utf-8")
        assert "Saint Mary" in httpx.get(f"{address}/visits", trust_env=False).text
        (tmp_path / "visits" / "survey.toml").unlink()
        assert 'href="/visits"' in httpx.get(f"{address}/", trust_env=False).text
        refusals = {
            "many": "at most 200 labels",
            "other": "no survey",
            "..": "Not Found",
            "a/b": "",
        }
        for path, why in refusals.items():
            refused = httpx.get(f"{address}/{path.replace('.', '%2e')}", trust_env=False)
            assert refused.status_code == 404
            assert why in refused.text
        file = tmp_path / "visits" / "task.toml"
        done = run_here("survey", "form", file, "--check", f"{address}/visits")
        assert done.returncode == 0, done.stdout
        shutil.rmtree(tmp_path / "visits" / "text")
        refused = httpx.get(f"{address}/visits", trust_env=False)
        assert refused.status_code == 404
        assert refused.text == (
            "text question word: the survey has it, and its files are missing\n"  # not where
        )
        module = httpx.get(f"{address}{PATH}", trust_env=False)
        assert module.text == joined_module()
        assert module.headers["access-control-allow-origin"] == "*"
        assert httpx.get(f"{address}/module/9.9.9/prio.js", trust_env=False).status_code == 404
        part = httpx.get(f"{address}/module/{__version__}/prio-text.js", trust_env=False)
        assert part.text == joined_text()
        other = httpx.get(f"{address}/module/{__version__}/index.js", trust_env=False)
        assert other.status_code == 404


def test_its_words_can_be_printed_to_be_translated() -> None:
    printed = run_here("survey", "form", "--print-words").stdout
    assert tomllib.loads(printed)["words"]["xx"] == dict(WORDS)
