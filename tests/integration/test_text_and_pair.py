"""What people write, through two aggregators: tosses, uploads, and words found in releases."""

import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from aggregator.cli.steward.text_upload import send_answers
from typer.testing import CliRunner

from aggregator.cli.steward.survey_texts import send_texts, text_tasks, write_survey
from aggregator.cli.steward.survey_words import show_words
from aggregator.cli.steward.text import app
from aggregator.cli.steward.text_files import read_asked, read_question, texts_of
from aggregator.client.text.question import TextQuestion
from aggregator.client.text.spelling import Spelling
from aggregator.client.text.strings import fingerprint
from aggregator.codec import encode
from aggregator.collector import Collected
from aggregator.collector.documents import result_document
from aggregator.collector.guarantee import conditions
from aggregator.collector.results.result import Result
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.groups import cost_of_a_person
from aggregator.protocol.provisioning import read_provisions
from aggregator.protocol.requirements import Floor
from aggregator.protocol.task import Task
from aggregator.service.storage.ledger.charges import costs_in
from aggregator.steward.survey import Meaning, plan, survey_from_toml, task_tables
from aggregator.steward.survey.texts import plan_texts
from tests.support.entropy import SeededEntropy
from tests.support.pair import NOW, Pair
from tests.support.surveys import VISITS, department
from tests.support.tasks import HELPER_URL, LEADER_URL, TIME_PRECISION, collector_keypair, make_task

FLOOR = Floor()
HELD = {"Äpfel": 110, "pear": 70, "": 30, "fig": 50} | {f"rare {number}": 1 for number in range(40)}
"""By the question's own keys no two of the three frequent ones share a bucket."""
WORDS = ["pear", "fig", "äpfel", "plum", "quince", *(f"nobody's {number}" for number in range(200))]
PEOPLE = {
    f"person {number}": answer
    for number, answer in enumerate(each for each, count in HELD.items() for _ in range(count))
}
SURVEY = (
    VISITS.replace('epsilon = "1"', 'epsilon = "5"')
    + department()
    + '[[question]]\nname = "word"\nkind = "text"\nepsilon = "4"\nbuckets = 32\ntasks = 8\n'
)


def made(folder: Path, title: str = "A fruit?") -> Path:
    arguments = {
        "--title": title,
        "--epsilon": "4",
        "--people": "300",
        "--tasks": "8",
        "--buckets": "128",
        "--min-batch-size": "3",
        "--time-precision": str(TIME_PRECISION),
        "--window": "1",
        "--privacy": "budget=8",
        "--leader": LEADER_URL,
        "--helper": HELPER_URL,
        "--collector-config": encode_base64url(encode(collector_keypair().config)),
        "--out": str(folder),
    }
    result = CliRunner().invoke(
        app, ["tasks", *(word for pair in arguments.items() for word in pair)]
    )
    assert result.exit_code == 0, (result.output, result.exception)
    return folder


def found_in(
    folder: Path, results: list[Result], tmp_path: Path, candidates: list[str]
) -> dict[str, object]:
    _, tasks = read_question(folder)
    released, words = tmp_path / "released.json", tmp_path / "words.txt"
    released.write_text(
        "\n".join(
            json.dumps(result_document(task, result))
            for task, result in zip(tasks, results, strict=True)
        )
    )
    words.write_text("\n".join(candidates), "utf-8")
    shown = CliRunner().invoke(
        app, ["results", str(folder), str(words), "--results", str(released), "--json"]
    )
    assert shown.exit_code == 0, (shown.output, shown.exception)
    document = json.loads(shown.stdout)
    assert isinstance(document, dict)
    return document


async def test_words_that_nobody_listed_are_found_and_a_second_answer_is_in_the_same_task(
    tmp_path: Path,
) -> None:
    folder, state = made(tmp_path / "made"), tmp_path / "tosses"
    state.mkdir()
    question, tasks = read_question(folder)
    pair = Pair(tmp_path, tasks[0])
    try:
        for pair.task in tasks:
            await pair.provision()

        async def send(written: dict[str, str], seconds: int) -> tuple[int, int]:
            entropy = SeededEntropy(b"people %d" % seconds)
            sent, before = await send_answers(
                question, tasks, written, state, pair.http, seconds, entropy, FLOOR
            )
            assert not sent.refused
            return sent.accepted, before

        async def collected(seconds: int) -> list[Result]:
            results = []
            for pair.task in tasks:
                results.append(await pair.collect(pair.interval(seconds)))
            return results

        assert await send(PEOPLE, NOW) == (300, 0)
        # Repeated, as after an interruption, by a process that would toss otherwise.
        assert await send(dict.fromkeys(PEOPLE, "another word"), NOW + 1) == (0, 300)
        pair.clock.advance(TIME_PRECISION)
        first = await collected(NOW)
        later = NOW + TIME_PRECISION
        assert await send(dict.fromkeys(PEOPLE, "another word"), later) == (300, 0)
        pair.clock.advance(TIME_PRECISION)
        second = await collected(later)
    finally:
        await pair.close()
    people = [result.report_count for result in first]
    assert sum(people) == 300
    assert min(people) > 0
    assert [result.report_count for result in second] == people
    check_first(found_in(folder, first, tmp_path, WORDS))
    assert not HELD.keys() & named(found_in(folder, second, tmp_path, WORDS)).keys()
    # Another list finds in the same releases what nobody had thought of before.
    found = named(found_in(folder, second, tmp_path, ["another word", *WORDS]))["another word"]
    assert abs(found["count"] - 300) < 5 * found["deviation"]


async def test_what_no_list_has_is_spelled_in_the_next_window_in_peoples_places(
    tmp_path: Path,
) -> None:
    folder, state = made(tmp_path / "made"), tmp_path / "tosses"
    state.mkdir()
    question, tasks = read_question(folder)
    # As all fingerprints of a window before have told, of which a list has one.
    prints = {fingerprint(each, question.meaning): each for each in ("pear", "äpfel", "fig")}
    words = tmp_path / "words.json"
    found = [
        {"fingerprint": each, "names": ["fig"] if name == "fig" else [], "count": 9.5}
        for each, name in prints.items()
    ]
    words.write_text(json.dumps({"found": found}))
    arguments = ["--found", str(words), "--alphabet", "äabcdefghijklmnopqrstuvwxyz", "--out"]
    spelled = CliRunner().invoke(app, ["spell", str(folder), *arguments, str(tmp_path / "spelled")])
    assert spelled.exit_code == 0, (spelled.output, spelled.exception)
    spelling, of_letters = read_asked(tmp_path / "spelled")
    assert [each.policy.group for each in of_letters] == [each.policy.group for each in tasks]
    pair = Pair(tmp_path, tasks[0])
    try:
        for pair.task in [*tasks, *of_letters]:
            await pair.provision()

        async def send(asked: TextQuestion | Spelling, of: list[Task], seconds: int) -> int:
            sent, _ = await send_answers(
                asked, of, PEOPLE, state, pair.http, seconds, SeededEntropy(b"people"), FLOOR
            )
            assert not sent.refused
            return sent.accepted

        assert await send(question, tasks, NOW) == 300
        # Nobody is in both within a window, and everybody is in the next one, in their place.
        assert await send(spelling, of_letters, NOW) == 0
        later = NOW + TIME_PRECISION
        pair.clock.advance(TIME_PRECISION)
        assert await send(spelling, of_letters, later) == 300
        assert await send(question, tasks, later) == 0
        pair.clock.advance(TIME_PRECISION)
        counts, results = [], []
        for pair.task in of_letters:
            results.append(await pair.collect(pair.interval(later)))
        for pair.task in tasks[:2]:
            counts.append((await pair.collect(pair.interval(NOW))).report_count)
    finally:
        await pair.close()
    assert [each.report_count for each in results[:2]] == counts
    assert sum(each.report_count for each in results) == 300
    released = tmp_path / "released.json"
    released.write_text(
        "\n".join(
            json.dumps(result_document(task, result))
            for task, result in zip(of_letters, results, strict=True)
        )
    )
    options = ["results", str(tmp_path / "spelled"), "--results", str(released)]
    shown = CliRunner().invoke(app, [*options, "--json"])
    assert shown.exit_code == 0, (shown.output, shown.exception)
    told = {each["fingerprint"]: each["name"] for each in json.loads(shown.stdout)["spelled"]}
    assert told == {each: name for each, name in prints.items() if name != "fig"}
    assert "2 of 2 named" in CliRunner().invoke(app, options).stdout


def named(document: dict[str, object]) -> dict[str, dict[str, float]]:
    found = document["found"]
    assert isinstance(found, list)
    return {name: each for each in found for name in each["names"]}


def check_first(document: dict[str, object]) -> None:
    """Look at what the first window says; bounds are so wide that a million tests pass."""
    found = named(document)
    assert len(found) <= 4  # with one that nobody wrote, of which a hundredth is expected
    for name, held in {"äpfel": 110, "pear": 70, "fig": 50}.items():
        each = found[name]
        assert each["low"] < each["count"] < each["high"]
        assert abs(each["count"] - held) < 6 * each["deviation"]
    assert document["candidates"] == len(WORDS)
    assert 0 < float(str(document["expected_false"])) < 1
    assert abs(float(str(document["no_answer"])) - 30) < 20
    assert abs(float(str(document["unexplained"])) - 40) < 180


async def test_nobody_is_counted_or_sent_while_an_aggregator_is_away_and_tosses_stay(
    tmp_path: Path,
) -> None:
    question, tasks = read_question(made(tmp_path / "made"))
    state = tmp_path / "tosses"
    state.mkdir()
    rounds: list[dict[str, str]] = []
    written = {"eve": "fig", "bob": ""}

    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    for name in (b"one", b"another"):
        async with httpx.AsyncClient(transport=httpx.MockTransport(refuse)) as http:
            with pytest.raises(PeerError):
                await send_answers(
                    question, tasks, written, state, http, NOW, SeededEntropy(name), FLOOR
                )
        files = {file.name: file.read_text("utf-8") for file in state.iterdir()}
        assert len(files) == len(written)  # a toss each, and no count
        rounds.append(files)
    assert rounds[0] == rounds[1]


@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER, Role.COLLECTOR])
def test_a_party_takes_part_in_all_tasks_by_one_file(tmp_path: Path, role: Role) -> None:
    folder = made(tmp_path / "made")
    _, tasks = read_question(folder)
    text = (folder / f"{role.name.lower()}.toml").read_text("utf-8")
    assert [each.task for each in read_provisions(text, role)] == tasks


def test_a_swapped_description_is_refused_and_so_is_another_order_of_tasks(tmp_path: Path) -> None:
    fruit, trees = made(tmp_path / "fruit"), made(tmp_path / "trees", "Which tree?")
    ours = (fruit / "text.json").read_text("utf-8")
    changes = {
        "was not made for this question": (trees / "text.json").read_text("utf-8"),
        "no histogram|was not made": ours.replace('"buckets": 128', '"buckets": 64'),
        "the question has 9": ours.replace('"tasks": 8', '"tasks": 9'),
        "normal form 1 only": ours.replace('"normalisation": 1', '"normalisation": 2'),
        "its meaning or its task_ids": ours.replace('"meaning": "', '"meaning": "00'),
    }
    for message, text in changes.items():
        assert text != ours
        (fruit / "text.json").write_text(text, "utf-8")
        with pytest.raises(ParameterError, match=message):
            read_question(fruit)
    (fruit / "text.json").write_text(ours, "utf-8")
    question, tasks = read_question(fruit)
    with pytest.raises(
        ParameterError, match="task 1 of 8: was not made for this question and this"
    ):
        question.check(tasks[::-1])


async def test_a_surveys_text_question_is_a_group_beside_its_task_and_its_words_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """People who wrote nothing, or have answered before, are one report or none each."""
    survey = survey_from_toml(SURVEY)
    config, urls = collector_keypair().config, (LEADER_URL, HELPER_URL)
    made, state = tmp_path / "made", tmp_path / "tosses"
    state.mkdir()
    tables = task_tables(survey, plan(survey))
    task = make_task(tables.vdaf, tables.privacy, **tables.settings)
    write_survey(task, text_tasks(survey, plan_texts(survey), config, *urls), made)
    provisions = read_provisions((made / "leader.toml").read_text("utf-8"), Role.LEADER)
    (question, tasks) = texts_of(made / "task.toml")["word"]
    assert [each.task for each in provisions] == [task, *tasks]
    start = survey.windows.start(datetime.fromtimestamp(NOW, UTC))
    answers = {f"person {number}": "back" if number % 4 else "" for number in range(120)}
    pair = Pair(tmp_path, task)
    try:
        for pair.task in [task, *tasks]:
            await pair.provision()
        sent = {}
        for name in (b"once", b"again"):
            sent[name] = await send_texts(
                {"word": (question, tasks)},
                {start: {"word": answers}},
                state,
                pair.http,
                SeededEntropy(name),
                FLOOR,
            )
        assert [(each["word"][0].accepted, each["word"][1]) for each in sent.values()] == [
            (120, 0),
            (0, 120),
        ]
        end = survey.windows.end(start)
        pair.clock.advance(int(end.timestamp()) - NOW)
        units = survey.windows.seconds // task.time_precision
        window = pair.interval(int(start.timestamp()), units)
        found = {}
        for pair.task in tasks:
            result = result_document(pair.task, await pair.collect(window))
            document = {"state": "finished", "task_id": str(pair.task.task_id), "result": result}
            found[pair.task.task_id] = [Collected(pair.task, start, end, document)]
        for party in (pair.leader, pair.helper):
            spent = await party.database.read(
                "spent", lambda tx: cost_of_a_person(costs_in(tx, survey.asked))
            )
            assert spent.epsilon == question.epsilon == 4  # of eight releases
    finally:
        await pair.close()
    said = dict(conditions(result))["Who keeps a person in one of several tasks"]
    assert "the person's client sees to that, and no aggregator can check it" in said
    words = tmp_path / "words.txt"
    words.write_text("back\nknee\n", "utf-8")
    meaning = Meaning.of_task(task)
    place = made / "task.toml"
    capsys.readouterr()
    show_words(place, meaning, [words], lambda of: found[of.task_id], as_json=True)
    (shown,) = json.loads(capsys.readouterr().out)["texts"]
    assert (shown["name"], shown["start"]) == ("word", start.isoformat())
    assert abs(named(shown)["back"]["count"] - 90) < 6 * named(shown)["back"]["deviation"]
    found.popitem()
    show_words(place, meaning, [words], lambda of: found.get(of.task_id, []), as_json=True)
    assert "7 of 8 tasks are collected" in capsys.readouterr().err
