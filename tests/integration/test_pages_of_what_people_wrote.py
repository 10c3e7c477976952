"""The page of a text question: what lists find, whose lists they are, and what bounds trying them.

The writer of a list, an operator or a reader, could gain by a list that blocks the service, by
strings that act in a page, or by having something asked of the aggregators.
"""

import csv
import dataclasses
import functools
import json
import re
import threading
from collections.abc import AsyncIterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import httpx
import numpy as np
import pytest
from anyio import to_thread

from aggregator.client.survey.numbers import Grid
from aggregator.client.text.amounts import Amount
from aggregator.client.text.choices import ByChoice
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling
from aggregator.collector.pages import forms, models, word_lists
from aggregator.collector.pages.readings import Readings
from aggregator.collector.pages.texts import costs_of_texts
from aggregator.dap.ids import encode_base64url
from aggregator.dap.times import Interval
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_table, task_to_table
from aggregator.results import Words
from aggregator.steward.text.beside import decode_beside
from aggregator.steward.text.decode import Decoded
from aggregator.written_times import IN_UTC
from tests.support.collector_service import log_in
from tests.support.collector_world import MONDAY, SCRIPT, WEEK, CollectorWorld, seconds
from tests.support.look import Page
from tests.support.patience import PATIENCE_SECONDS
from tests.support.tasks import TIME_PRECISION
from tests.support.text import question_tasks, released_beside, released_words, spelling_tasks

QUESTION = TextQuestion("A fruit?", Fraction(4), 8, 128)
HELD = {"fig": 500, SCRIPT: 300, "pear": 200}
UNITS = int(WEEK.total_seconds()) // TIME_PRECISION
WINDOW = {"window": UNITS, "window_start": seconds(MONDAY) // TIME_PRECISION % UNITS}
TASKS = question_tasks(QUESTION, window=WINDOW, max_reports=10**6)
PATH = f"/questions/{TASKS[0].task_id}/words"


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    folder = tmp_path / "lists"
    folder.mkdir()
    (folder / "fruit.txt").write_text(f"fig\nPEAR\n{SCRIPT}\nplum\n", "utf-8")
    (folder / "towns.txt").write_text("Paris\n", "utf-8")
    (folder / "secret.key").write_text("no list", "utf-8")
    return folder


@pytest.fixture
def world(tmp_path: Path, lists: Path) -> CollectorWorld:
    world = CollectorWorld(tmp_path, *TASKS, word_lists=lists)
    finish(world, TASKS)
    return world


@pytest.fixture
async def browser(world: CollectorWorld) -> AsyncIterator[httpx.AsyncClient]:
    async with world.client() as client:
        await log_in(client)
        yield client


def finish(world: CollectorWorld, tasks: list[Task]) -> None:
    """Release the first week of all tasks, and the second of all but the last."""
    tables = released_words(QUESTION, HELD, np.random.default_rng(1))
    for task, row in zip(tasks, tables.tolist(), strict=True):
        world.finish(task, MONDAY, row)
    for task in tasks[:-1]:
        world.finish(task, MONDAY + WEEK, [0] * 128)


async def look(browser: httpx.AsyncClient, path: str, code: int = 200) -> Page:
    answer = await browser.get(path)
    assert answer.status_code == code, answer.text
    return Page(answer.text)


async def paste(browser: httpx.AsyncClient, strings: str) -> httpx.Response:
    form = (await look(browser, PATH)).form(PATH)
    return await browser.post(PATH, data=form | {"strings": strings})


async def test_a_page_and_its_files_have_the_words_and_numbers_of_the_library(
    browser: httpx.AsyncClient,
) -> None:
    page = await look(browser, PATH)
    assert not page.all("script")
    main = page.all("main")[0].text
    assert "fig" in main
    assert SCRIPT in main  # as text
    assert "7 of 8 tasks; all are needed" in main
    answer = (await browser.get(f"{PATH}.json")).json()
    models.WordsOfText.model_validate_json(json.dumps(answer))
    assert (answer["lists"], answer["word_list"]) == (["fruit", "towns"], "fruit")
    documents = [
        {"task_id": str(task.task_id), "values": row.tolist(), "interval": {"start": 0}}
        for task, row in zip(
            TASKS, released_words(QUESTION, HELD, np.random.default_rng(1)), strict=True
        )
    ]
    words = Words.of_documents(TASKS, documents, ["fig", "pear", SCRIPT, "plum"])
    same = json.loads(json.dumps(words.document))
    assert same.pop("title") == answer["question"]
    same.pop("version")
    assert [each["names"] for each in answer["found"]] == [["fig"], [SCRIPT], ["pear"]]
    assert {name: answer[name] for name in same} == same
    rows = csv.DictReader((await browser.get(f"{PATH}.csv")).text.splitlines())
    assert [row["label"] for row in rows] == ["fig", SCRIPT, "pear"]
    for term, said in (("Found", "3"), ("Strings that were tried", "4")):
        assert f"{term}{said}" in main
    # Of the other list nothing is found, and no other file of the folder is a list.
    assert "None of these strings is found" in (await browser.get(f"{PATH}?list=towns")).text
    for name in ("secret", "secret.key", "../collector", "none"):
        assert (await browser.get(PATH, params={"list": name})).status_code == 400
    assert (await browser.get(f"{PATH}?window={seconds(MONDAY + WEEK)}")).status_code == 404


async def test_means_stand_beside_counts_and_sums_in_the_files(tmp_path: Path, lists: Path) -> None:
    grid = Grid(Fraction(0), Fraction(1), 20, clips=False)
    question = dataclasses.replace(QUESTION, amount=Amount("How much?", grid, "euros <each>"))
    tasks = question_tasks(question, window=WINDOW, max_reports=10**6)
    world = CollectorWorld(tmp_path, *tasks, word_lists=lists)
    held = {"fig": (500, 20), SCRIPT: (300, 5), "pear": (200, 0)}
    tables = released_beside(question, held, np.random.default_rng(1))
    for task, row in zip(tasks, tables.tolist(), strict=True):
        world.finish(task, MONDAY, row)
    async with world.client() as browser:
        await log_in(browser)
        page = await look(browser, PATH)
        main = page.all("main")[0].text
        assert "mean, euros <each>" in main
        assert re.search(r"fig[0-9,.]+ \([0-9.]+ to 20(\.0+)?\)", main), main
        answer = (await browser.get(f"{PATH}.json")).json()
        models.WordsOfText.model_validate_json(json.dumps(answer))
        assert [each["names"] for each in answer["found"]] == [["fig"], [SCRIPT], ["pear"]]
        for each, mean in zip(answer["found"], (20, 5, 0), strict=True):
            assert each["amount"]["low"] - 1 <= mean <= each["amount"]["high"] + 1
        assert answer["question"] == "A fruit?"
        rows = list(csv.DictReader((await browser.get(f"{PATH}.csv")).text.splitlines()))
        assert [row["shows"] for row in rows] == ["count", "mean", "sum"] * 3
        assert {row["unit"] for row in rows} == {"", "euros <each>"}


async def test_a_table_by_another_answer_has_a_column_for_each_label_and_shares_in_the_files(
    tmp_path: Path, lists: Path
) -> None:
    question = dataclasses.replace(QUESTION, by=ByChoice("age", ("young", "old <60>")))
    tasks = question_tasks(question, window=WINDOW, max_reports=10**6)
    world = CollectorWorld(tmp_path, *tasks, word_lists=lists)
    held = {"fig": (500, 1), SCRIPT: (300, 0), "pear": (200, 1)}
    tables = released_beside(question, held, np.random.default_rng(1))
    for task, row in zip(tasks, tables.tolist(), strict=True):
        world.finish(task, MONDAY, row)
    async with world.client() as browser:
        await log_in(browser)
        page = await look(browser, PATH)
        heads = [each.text for each in page.all("th")]
        assert heads[: heads.index("old <60>") + 1][-3:] == ["to", "young", "old <60>"]
        main = page.all("main")[0].text
        assert "chose each answer to age, of those who answered both" in main
        # Nobody chose the first label with a fig: no count is below 0.
        assert re.search(r"fig[0-9,.]+[0-9.]+ \(0(\.0+)? to [0-9.]+\)[0-9.]+ \(", main), main
        answer = (await browser.get(f"{PATH}.json")).json()
        models.WordsOfText.model_validate_json(json.dumps(answer))
        for each, (count, old) in zip(answer["found"], held.values(), strict=True):
            truths = (count * (1 - old), count * old)
            for cell, truth in zip(each["by"], truths, strict=True):
                assert cell["low"] - 5 <= truth <= cell["high"] + 5
                assert cell["share_low"] - 0.05 <= truth / count <= cell["share_high"] + 0.05
        assert answer["question"] == "A fruit?"
        rows = list(csv.DictReader((await browser.get(f"{PATH}.csv")).text.splitlines()))
        assert [(row["group"], row["shows"]) for row in rows[:5]] == [
            ("", "count"),
            *((label, shows) for label in ("young", "old <60>") for shows in ("count", "share")),
        ]
        assert rows[1].keys() <= models.HeldString.model_fields.keys()


async def test_all_tasks_of_a_question_are_one_card_and_each_leads_to_its_page(
    world: CollectorWorld, browser: httpx.AsyncClient
) -> None:
    cards = [
        each
        for each in (await look(browser, "/")).all("li")
        if "card" in each.attributes.get("class", "")
    ]
    assert len(cards) == 1
    assert "8 tasks, of which a person is in one" in cards[0].text
    overview = (await browser.get("/overview.json")).text
    (line,) = models.Overview.model_validate_json(overview).questions
    assert (line.address, line.results) == (PATH, 2)
    # The tasks of a spelling are one card, too, and no question of hashes.
    letters = Spelling(QUESTION, (1, 2), letters=8)
    for place, task in enumerate(question_tasks(QUESTION, 100, WINDOW)):
        table = task_to_table(task) | {"task_info": letters.info(place)}
        world.add(task_from_table(table))
    overview = (await browser.get("/overview.json")).text
    found = models.Overview.model_validate_json(overview).questions
    titles = [each.question.partition(" meaning:")[0] for each in found]
    assert titles == ["letter by letter: A fruit?", "A fruit?"]
    card = (await look(browser, "/")).all("li")[0].text
    assert "Letters of frequent strings that no list has" in card
    one = await look(browser, f"/questions/{TASKS[3].task_id}")
    assert PATH in [each.attributes.get("href") for each in one.all("a")]
    assert (
        "fig" in (await look(browser, f"/questions/{TASKS[3].task_id}/words")).all("main")[0].text
    )


def test_letters_add_to_what_a_question_costs_in_the_windows_that_ask_for_them(
    world: CollectorWorld,
) -> None:
    """A steward who asks for letters would otherwise promise people less than they pay."""
    interval = Interval.of(seconds(MONDAY + WEEK) // TIME_PRECISION, UNITS)
    tasks = spelling_tasks(Spelling(QUESTION, (1, 2), letters=8), TASKS, interval)
    for task in tasks:
        world.add(task)
    world.finish(tasks[2], MONDAY + WEEK, [0] * 128)
    found = world.database.read_sync("costs", lambda tx: costs_of_texts(tx, Readings(IN_UTC)))
    assert [
        (each.task.task_id, each.most_releases, made)
        for each, made in found[QUESTION.meaning.hex()]
    ] == [(TASKS[0].task_id, None, 2), (tasks[0].task_id, 1, 1)]


async def test_the_python_of_the_page_finds_the_same(
    tmp_path: Path, browser: httpx.AsyncClient
) -> None:
    (shown,) = (await look(browser, PATH)).all("code")
    config = tmp_path / "collector.toml"
    key = encode_base64url(bytes(32))
    config.write_text(
        f'service.role = "collector"\nservice.database = "collector.sqlite"\n'
        f'keys.store_key = "{key}"\n',
        "utf-8",
    )
    config.chmod(0o600)
    source = shown.text.replace('"collector.toml"', repr(str(config)))
    names: dict[str, Any] = {}
    run = functools.partial(exec, source.replace('"of", "your", "own"', '"pear", "plum"'), names)
    await to_thread.run_sync(run)
    assert [each.names for each in names["words"].found] == [("pear",)]


async def test_a_reader_tries_strings_of_their_own_and_a_list_without_an_end_is_refused(
    world: CollectorWorld, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Page((await paste(browser, "pear\n\x1b[2J\n=1+1\n")).text).all("main")[0].text
    assert "pear" in found
    assert "fig" not in found
    assert "Found1" in found
    for strings, said in (
        ("", "holds no string"),
        ("a\n" * (word_lists.MOST_PASTED + 1), "may have 65,536 strings"),
    ):
        answer = await paste(browser, strings)
        assert (answer.status_code, said in answer.text) == (400, True)
    assert (await paste(browser, "x" * 2**21)).status_code == 413
    form = (await look(browser, PATH)).form(PATH)
    own = await browser.post(PATH, data={"strings": "pear", "csrf": "A" * 43})
    assert own.status_code == 403
    for name, value, said in (
        ("_MOST_FOUND", 1, "more than 1 strings pass"),
        ("_SECONDS", -1, "a page tries a list for -1 s"),
        ("_MOST_BUCKETS", 8 * 128 - 1, "this question has 1,024"),
    ):
        monkeypatch.setattr(word_lists, name, value)
        answer = await browser.post(PATH, data=form | {"strings": "fig\npear\nand another"})
        assert (answer.status_code, said in answer.text) == (400, True), name
        monkeypatch.undo()
    # Nothing of this was asked of anybody.
    assert world.pending() == 0


async def test_a_form_of_very_many_fields_is_refused_and_a_long_one_holds_nobody(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any reader may send two megabytes: a million fields took most of a second."""
    form = (await look(browser, PATH)).form(PATH) | {"strings": "pear"}
    readers, inner = list[int](), forms.fields_of

    def fields_of(body: bytes) -> dict[str, str]:
        readers.append(threading.get_ident())
        return inner(body)

    monkeypatch.setattr(forms, "fields_of", fields_of)
    assert (await browser.post(PATH, data=form)).status_code == 200
    many = form | {f"more {number}": "" for number in range(16)}
    answer = await browser.post(PATH, data=many)
    assert (answer.status_code, "the form may have 16 fields" in answer.text) == (400, True)
    assert len(readers) == 2
    assert threading.get_ident() not in readers


async def test_the_service_answers_while_a_list_is_tried_and_only_so_many_lists_wait(
    browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = (await look(browser, PATH)).form(PATH)
    begun, go_on, refused = threading.Event(), threading.Event(), anyio.Event()
    tried, codes = list[int](), list[int]()

    def slowly(*arguments: Any, **named: Any) -> Decoded:  # noqa: ANN401  as it is called
        tried.append(1)
        begun.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return decode_beside(*arguments, **named)

    async def ask(strings: str) -> None:
        answer = await browser.post(PATH, data=form | {"strings": strings})
        codes.append(answer.status_code)
        if codes == [429, 429]:
            assert "other lists are being tried" in answer.text
            refused.set()

    monkeypatch.setattr(word_lists, "decode_beside", slowly)
    try:
        with anyio.fail_after(PATIENCE_SECONDS):
            async with anyio.create_task_group() as group:
                group.start_soon(ask, "fig")
                await to_thread.run_sync(begun.wait, PATIENCE_SECONDS)
                assert (await browser.get("/overview.json")).status_code == 200
                # One is tried, three wait, all with the same list, and two are sent away.
                for _ in range(5):
                    group.start_soon(ask, "plum")
                await refused.wait()
                go_on.set()
    finally:
        go_on.set()
    assert sorted(codes) == [200] * 4 + [429] * 2
    assert len(tried) == 2
