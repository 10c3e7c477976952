"""`prio doctor` between the aggregators of a pair."""

import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from functools import partial
from hashlib import sha256
from pathlib import Path

import httpx
import pytest
from anyio import to_thread
from structlog.testing import capture_logs

import aggregator
from aggregator.cli.service import doctor
from aggregator.cli.service.doctor_sides import Side, compared, read_side, side_of
from aggregator.cli.service.parties import AggregatorParty
from aggregator.codec import encode
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.service.config import HelperSettings, LeaderSettings
from aggregator.service.storage.tasks.forgetting import forget
from aggregator.service.storage.tasks.tasks import end_task, list_all_tasks, replace_peer_token
from tests.support.entropy import SeededEntropy
from tests.support.in_band import agreed_collector, agreements_text
from tests.support.pair import NOW, VERIFY_KEY, Pair
from tests.support.permitted import SECRETS, given, permitted
from tests.support.tasks import HELPER_URL, LEADER_URL, TASK_ID, make_task


@pytest.fixture
async def pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pair]:
    pair = Pair(tmp_path, make_task())
    await pair.provision()

    monkeypatch.setattr("aggregator.service.transport.client.open_client", client_of(pair))
    yield pair
    await pair.close()


def client_of(pair: Pair) -> Callable[..., httpx.AsyncClient]:
    def client(_seconds: float, **_: object) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            mounts={
                LEADER_URL.rstrip("/"): httpx.ASGITransport(pair.leader),
                HELPER_URL.rstrip("/"): httpx.ASGITransport(pair.helper),
            }
        )

    return client


async def findings(party: AggregatorParty, endpoint: str) -> dict[str, tuple[str, str]]:
    found = await doctor._examine(party, endpoint)
    return {each.subject: (each.verdict, each.says) for each in found}


def leaders(pair: Pair) -> AggregatorParty:
    settings = LeaderSettings(database=":memory:")
    return AggregatorParty(Role.LEADER, settings, pair.leader.database, pair.leader.journal)


async def test_a_leader_sees_that_its_helper_serves_the_task(pair: Pair) -> None:
    found = await findings(leaders(pair), HELPER_URL)
    assert found["HPKE"][0] == "ok"
    verdict, says = found["task"]
    assert verdict == "ok"
    assert pair.task.fingerprint in says
    assert says.endswith("the helper serves it and knows our token")


async def test_scripts_get_all_that_was_found_in_one_document(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    party = nullcontext(leaders(pair))
    monkeypatch.setattr("aggregator.cli.service.parties.open_party", lambda _: party)
    with capture_logs():
        await to_thread.run_sync(partial(doctor.doctor, HELPER_URL, as_json=True))
    document = json.loads(capsys.readouterr().out)
    assert document["version"] == 1
    found = [(each["verdict"], each["subject"], each["says"]) for each in document["findings"]]
    assert ("ok", "ours", f"leader, prio {aggregator.__version__}") in found
    (task,) = [says for verdict, subject, says in found if (verdict, subject) == ("ok", "task")]
    assert pair.task.fingerprint in task


async def test_a_token_that_the_helper_does_not_know_is_a_fault(pair: Pair) -> None:
    await pair.leader.database.run(
        "other token", lambda tx: replace_peer_token(tx, pair.task.task_id.value, "another-token")
    )
    verdict, says = (await findings(leaders(pair), HELPER_URL))["task"]
    assert verdict == "fault"
    assert "401" in says
    assert "another-token" not in says


async def test_a_task_that_was_forgotten_is_not_asked_about(pair: Pair) -> None:
    party, task_id = leaders(pair), pair.task.task_id
    await party.database.run("end", lambda tx: end_task(tx, task_id.value))
    await to_thread.run_sync(forget, party.database, task_id.value)
    found = await findings(party, HELPER_URL)
    assert "task" not in found
    assert found["tasks"] == ("look", f"none of ours names {HELPER_URL}")
    (kept,) = party.database.read_sync("list all tasks", list_all_tasks)
    assert kept.task_id == task_id.value


async def test_a_helper_sees_the_fingerprint_and_a_stranger_that_nothing_is_shared(
    pair: Pair,
) -> None:
    party = helpers(pair)
    assert (await findings(party, LEADER_URL))["task"][1].endswith(pair.task.fingerprint)
    verdict, says = (await findings(party, LEADER_URL.rstrip("/")))["tasks"]
    assert (verdict, "none of ours names" in says) == ("look", True)


def helpers(pair: Pair) -> AggregatorParty:
    settings = HelperSettings(database=":memory:")
    return AggregatorParty(Role.HELPER, settings, pair.helper.database, pair.helper.journal)


def clashes(leader: Side, helper: Side) -> dict[str, tuple[str, str]]:
    return {each.subject: (each.verdict, each.says) for each in compared(leader, helper)}


async def test_two_sides_that_fit_have_nothing_to_look_at(pair: Pair, tmp_path: Path) -> None:
    leader = side_of(leaders(pair), [pair.task], HELPER_URL)
    file = tmp_path / "helper.json"
    file.write_text(
        side_of(helpers(pair), [pair.task], LEADER_URL).model_dump_json(exclude_none=True)
    )
    found = clashes(leader, read_side(file))
    assert {verdict for verdict, _ in found.values()} == {"ok"}
    assert found.keys() == {"versions", "waiting", "job size", "report age", "skew", "task"}


@pytest.mark.parametrize(
    ("helper", "subject", "verdict", "says"),
    [
        ({"prio": "0.0"}, "versions", "look", "helper 0.0"),
        ({"answer_seconds": 46}, "waiting", "fault", "gives up what the helper still works at"),
        ({"max_body_size": 2**20}, "job size", "fault", "refuses the leader's largest jobs"),
        ({"max_report_age_seconds": 3600}, "report age", "fault", "drops reports that the leader"),
        ({"clock_skew_seconds": 1}, "skew", "look", "wait until the other does"),
        ({"tasks": {}}, "task", "look", "only we take part"),
        ({"max_body_size": None}, "job size", "look", "not all is said"),
        ({"verify_keys": {str(TASK_ID): 16 * "0"}}, "key", "fault", "two different verify_keys"),
    ],
)
async def test_where_two_sides_clash_both_figures_are_named(
    pair: Pair, helper: dict[str, object], subject: str, verdict: str, says: str
) -> None:
    ours, theirs = (
        side_of(leaders(pair), [pair.task], HELPER_URL),
        side_of(helpers(pair), [pair.task], LEADER_URL),
    )
    found = clashes(ours, theirs.model_copy(update=helper))
    assert found[subject][0] == verdict
    assert says in found[subject][1]
    assert {name for name, (each, _) in found.items() if each != "ok"} == {subject}


async def test_a_side_tells_verification_keys_apart_and_shows_none(pair: Pair) -> None:
    shown = side_of(helpers(pair), [pair.task], LEADER_URL)
    (digest,) = shown.verify_keys.values()
    assert shown.verify_keys == side_of(leaders(pair), [pair.task], HELPER_URL).verify_keys
    assert len(digest) == 16
    assert VERIFY_KEY.hex()[:16] != digest != sha256(VERIFY_KEY).hexdigest()[:16]


async def test_another_fingerprint_is_another_task(pair: Pair) -> None:
    ours, theirs = (
        side_of(leaders(pair), [pair.task], HELPER_URL),
        side_of(helpers(pair), [pair.task], LEADER_URL),
    )
    other = theirs.model_copy(update={"tasks": {str(pair.task.task_id): "\x1b[2J"}})
    verdict, says = clashes(ours, other)["task"]
    assert (verdict, "two different tasks" in says, "\x1b" in says) == ("fault", True, False)


async def test_collectors_that_one_side_alone_has_or_has_otherwise_are_faults(
    pair: Pair, tmp_path: Path
) -> None:
    def side(party: AggregatorParty, endpoint: str, *identities: str, **more: str) -> Side:
        file = tmp_path / f"{party.role.name}.toml"
        file.touch(0o600)
        tables = [
            agreed_collector(party.role, each, f"a-token-of-{each}", **more) for each in identities
        ]
        file.write_text(agreements_text(party.role, collectors=tables))
        settings = party.settings.model_copy(update={"in_band_tasks": file})
        return side_of(dataclasses.replace(party, settings=settings), [], endpoint)

    ours = side(leaders(pair), HELPER_URL, "both.example", "our.example")
    theirs = side(helpers(pair), LEADER_URL, "both.example", "their.example")
    found = {each.says.split(":")[0]: each for each in compared(ours, theirs)}
    assert found["both.example"].verdict == "ok"
    for identity, who in (("our.example", "only we have it"), ("their.example", "only they")):
        assert found[identity].verdict == "fault"
        assert who in found[identity].says
    assert side(leaders(pair), "https://another.example/", "both.example").collectors == {}
    key = encode_base64url(encode(generate_keypair(9, SeededEntropy(b"another")).config))
    other = side(helpers(pair), LEADER_URL, "both.example", hpke_config=key)
    assert "a-token" not in f"{ours} {other}"
    found = {each.says.split(":")[0]: each for each in compared(ours, other)}
    assert "sealed to two keys" in found["both.example"].says


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not what --ours prints"),
        ('{"version": 1, "role": "collector"}', "role: must be leader or helper"),
        (
            '{"role": "helper", "prio": "1", "tasks": {"a": 1}}',
            "clock_skew_seconds: missing",
        ),
    ],
)
def test_what_is_no_side_is_refused_by_its_member(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "theirs.json"
    file.write_text(text)
    with pytest.raises(ParameterError, match=message):
        read_side(file)


async def test_two_of_one_role_are_not_compared(pair: Pair) -> None:
    side = side_of(leaders(pair), [], HELPER_URL)
    with pytest.raises(ParameterError, match="a leader's, as ours is"):
        list(compared(side, side))


async def test_a_leader_hears_its_helpers_lists_of_permits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = permitted()
    made = Pair(tmp_path, task)
    await made.provision()
    monkeypatch.setattr("aggregator.service.transport.client.open_client", client_of(made))
    # More windows than one answer has.
    moments = [NOW + 200 * number for number in range(70)]
    given(made.leader, task, *moments)
    given(made.helper, task, moments[0], secrets=SECRETS[:9])
    given(made.helper, task, *moments[1:69])
    found = await doctor._examine(leaders(made), HELPER_URL)
    said = [(each.verdict, each.says) for each in found if each.subject == "permits"]
    assert [verdict for verdict, _ in said] == ["fault", "fault"]
    assert "10 permits, list " in said[0][1]
    assert " here, 9 permits, list " in said[0][1]
    assert "no permits there" in said[1][1]
    given(made.helper, task, *moments)
    found = await doctor._examine(leaders(made), HELPER_URL)
    (same,) = [each for each in found if each.subject == "permits"]
    assert same.verdict == "ok"
    assert same.says.endswith("the same lists of 70 windows on both sides")
    await made.close()


async def test_lists_of_permits_are_compared_by_window(tmp_path: Path) -> None:
    task = permitted()
    made = Pair(tmp_path, task)
    await made.provision()
    for service, secrets in ((made.leader, SECRETS), (made.helper, SECRETS[:9])):
        given(service, task, NOW)
        given(service, task, NOW + 200, secrets=secrets)
    leader = leaders(made)
    helper = AggregatorParty(
        Role.HELPER,
        HelperSettings(database=":memory:"),
        made.helper.database,
        made.helper.journal,
    )
    ours, theirs = (
        Side.model_validate_json(side_of(each, [task], LEADER_URL).model_dump_json())
        for each in (leader, helper)
    )
    (fault,) = [each for each in compared(ours, theirs) if each.subject == "permits"]
    assert fault.verdict == "fault"
    assert "window from 2023-11-14T22:16:40Z: 10 permits, list " in fault.says
    assert " here, 9 permits, list " in fault.says
    given(made.helper, task, NOW + 200)
    (same,) = [
        each
        for each in compared(
            side_of(leader, [task], HELPER_URL), side_of(helper, [task], LEADER_URL)
        )
        if each.subject == "permits"
    ]
    assert same.verdict == "ok"
    assert same.says.endswith("the same lists of 2 windows on both sides")
    await made.close()
