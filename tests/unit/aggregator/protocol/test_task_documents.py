"""Several tasks are one document that any TOML or JSON parser reads."""

import base64
import hashlib
import json
import tomllib
from collections.abc import Callable, Sequence

import pytest

from aggregator.dap.ids import TaskId, encode_base64url
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.issuer_key_file import issuer_keys_from_json, issuer_keys_to_json
from aggregator.protocol.provisioning import (
    PARTIES,
    provision,
    provision_all,
    read_provision,
    read_provisions,
)
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import (
    task_from_toml,
    task_to_toml,
    tasks_from_toml,
    tasks_to_json,
    tasks_to_toml,
)
from tests.support.entropy import SeededEntropy
from tests.support.permitted import permitted
from tests.support.signed import issuer_keys, moduli, signed_task
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import LAPLACE, make_task

IDS = [TaskId(bytes([number] * 32)) for number in range(3)]
AGE = '[[question]]\nname = "age"\nkind = "number"\nlow = 0\nhigh = 120\n'
SURVEYS = (VISITS + department(), VISITS.replace("Visits", "Ages") + AGE)
TASKS = [
    task_of(SURVEYS[0], id=str(IDS[0])),
    task_of(SURVEYS[1], id=str(IDS[1])),
    make_task(privacy={**LAPLACE, "bound": False}, interval={"start": 5, "duration": 2**53 + 1}),
]


def test_every_parser_reads_the_file_of_several_tasks() -> None:
    table = tomllib.loads(tasks_to_toml(TASKS))
    assert table["version"] == 1
    assert [each["id"] for each in table["task"]] == [str(task.task_id) for task in TASKS]
    document = json.loads(tasks_to_json(TASKS))
    for each in document["task"]:
        del each["configuration"]
    assert document == table


@pytest.mark.parametrize("write", [tasks_to_toml, tasks_to_json])
@pytest.mark.parametrize("tasks", [TASKS, TASKS[:1]], ids=["three", "one"])
def test_tasks_that_are_written_are_read_back(write: object, tasks: Sequence[Task]) -> None:
    assert callable(write)
    again = tasks_from_toml(write(tasks))
    assert again == tasks
    assert [task.fingerprint for task in again] == [task.fingerprint for task in tasks]


def test_the_json_has_the_bytes_that_are_bound_into_reports() -> None:
    for task, each in zip(TASKS, json.loads(tasks_to_json(TASKS))["task"], strict=True):
        data = base64.urlsafe_b64decode(each["configuration"] + "==")
        assert hashlib.sha256(data).hexdigest() == task.fingerprint
        assert task.input_share_aad_prefix.endswith(data)


def test_bound_bytes_that_say_something_else_are_refused() -> None:
    document = json.loads(tasks_to_json(TASKS))
    document["task"][1]["min_batch_size"] = 4
    with pytest.raises(ParameterError, match=r"task 2 of 3 \(Ages\): configuration: is not"):
        tasks_from_toml(json.dumps(document))


def test_a_file_of_one_task_may_be_its_table_alone_in_either_notation() -> None:
    task = TASKS[0]
    bare = task_to_toml(task)
    assert tasks_from_toml(bare) == [task]
    assert task_from_toml(json.dumps(tomllib.loads(bare))) == task
    assert task_from_toml(tasks_to_toml([task])) == task


def test_where_one_task_is_needed_several_are_named() -> None:
    said = r"holds 3 tasks .*\(Visits, Ages, a task of the tests\); `tasks_from"
    with pytest.raises(ParameterError, match=said):
        task_from_toml(tasks_to_toml(TASKS))


def test_a_fault_names_the_task_that_has_it() -> None:
    text = tasks_to_toml(TASKS).replace("min_batch_size = 3", "min_batch_size = 0", 2)
    text = text.replace("min_batch_size = 0", "min_batch_size = 3", 1)
    with pytest.raises(ParameterError, match=r"^task 2 of 3 \(Ages\): min_batch_size"):
        tasks_from_toml(text)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("version = 1\n", "", "version: missing"),
        ("version = 1\n", "version = 2\n", "version: must be 1, not 2"),
        (
            "version = 1\n",
            'version = 1\nleader = "x"\n',
            r"leader: belongs in a table \[\[task\]\]",
        ),
        ("[[task]]\n", "[[task]]\nversion = 1\n", "version: must be given once"),
        (f'id = "{IDS[1]}"', f'id = "{IDS[0]}"', f"id: {IDS[0]} is that of 2 tasks"),
        ("[task.privacy]", "[task.secrets]\nx = 1\n[task.privacy]", "has secrets"),
        ("[task.vdaf]", "[vdaf]", "vdaf: belongs in"),
    ],
)
def test_a_document_with_a_fault_is_refused(old: str, new: str, said: str) -> None:
    text = tasks_to_toml(TASKS)
    assert old in text
    with pytest.raises(ParameterError, match=said):
        tasks_from_toml(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version = 1\ntask = []", "a table for each task"),
        ("version = 1\ntask = 3", "a table for each task"),
        ("version = 1\ntask = [1]", "a table for each task"),
        ("[task]\nid = 1", "a table for each task"),
        ('[{"id": "', "the list that pages need; give tasks.toml"),
        ("{", "not JSON"),
        ('{"version": 1, "version": 1}', "not JSON: 'version' is given twice"),
        ('{"version": NaN}', "not JSON: NaN is no number"),
        ('{"version": "\\ud800"}', "not JSON"),
        ('{"version": ' + "9" * 5000 + "}", "not JSON"),
        ('{"a": ' * 100_000, "not JSON"),
        ('{"version": 1.0}', "version: must be a whole number"),
    ],
)
def test_what_is_no_document_is_refused(text: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        tasks_from_toml(text)


def test_each_partys_file_is_one_document_with_its_own_secrets() -> None:
    files = provision_all(TASKS, SeededEntropy(b"survey"))
    for role in PARTIES:
        assert len(tomllib.loads(files[role])["task"]) == 3
        given = read_provisions(files[role], role)
        assert [each.task for each in given] == TASKS
        assert [task_from_toml(each.definition) for each in given] == TASKS
    leader, helper = (read_provisions(files[role], role) for role in PARTIES[:2])
    assert [each.secrets.verify_key for each in leader] == [
        each.secrets.verify_key for each in helper
    ]
    assert len({each.secrets.verify_key for each in leader}) == 3
    assert {each.secrets.collector_token for each in helper} == {None}


def test_a_file_of_one_partys_secrets_is_only_for_that_party() -> None:
    files = provision_all(TASKS, SeededEntropy(b"survey"))
    with pytest.raises(ParameterError, match=r"task 1 of 3 .*this one is the leader's"):
        read_provisions(files[Role.LEADER], Role.HELPER)
    with pytest.raises(ParameterError, match="holds 3 tasks where one is needed"):
        read_provision(files[Role.LEADER], Role.LEADER)
    with pytest.raises(ParameterError, match="needs its own file, not the public one"):
        read_provisions(tasks_to_toml(TASKS), Role.LEADER)


@pytest.mark.parametrize(
    "spoiled",
    ["TOKEN = TOKEN", 'x = "TOKEN\n', "[TOKEN]\n[TOKEN]\n", "TOKEN.a = 1\nTOKEN.a.b = 1\n"],
)
def test_no_secret_is_in_what_is_said_of_a_file_that_is_not_toml(spoiled: str) -> None:
    text = provision(TASKS[0], SeededEntropy(b"one"))[Role.LEADER]
    token = read_provision(text, Role.LEADER).secrets.leader_token
    assert token is not None
    with pytest.raises(ParameterError, match=r"not TOML \(line [0-9]+, column [0-9]+\)") as caught:
        read_provisions(text + spoiled.replace("TOKEN", token), Role.LEADER)
    assert token not in str(caught.value)
    assert caught.value.__cause__ is None


SIGNED = [signed_task(each, domain=bytes([place] * 32)) for place, each in enumerate(IDS)]


@pytest.mark.parametrize("write", [tasks_to_toml, tasks_to_json])
@pytest.mark.parametrize("also", [[], [TASKS[2]], [permitted()]], ids=["", "open", "listed"])
def test_an_issuers_keys_stand_once_in_the_file_of_all_tasks_that_share_them(
    write: Callable[[Sequence[Task]], str], also: list[Task]
) -> None:
    text = write([*SIGNED, *also])
    key = encode_base64url(moduli()[0])
    assert text.count(key) == (1 if not (also and also[0].permits) else 3)
    assert tasks_from_toml(text) == [*SIGNED, *also]


def test_a_partys_file_has_them_once_too() -> None:
    files = provision_all(SIGNED, SeededEntropy(1))
    assert files[Role.LEADER].count("first_window") == 1
    assert [each.task for each in read_provisions(files[Role.LEADER], Role.LEADER)] == SIGNED


def test_nothing_else_of_permits_stands_above_the_tasks() -> None:
    text = tasks_to_toml(SIGNED).replace("[permits]", '[permits]\ndomain = "AA"', 1)
    with pytest.raises(ParameterError, match=r"permits: above the first \[\[task\]\] has first"):
        tasks_from_toml(text)


def test_the_file_of_an_issuers_keys_is_read_back_and_names_its_faults() -> None:
    keys = issuer_keys(21)
    text = issuer_keys_to_json(keys)
    assert issuer_keys_from_json(text) == keys
    for old, new, said in (
        ('"version": 1', '"version": 2', "version: must be 1, not 2"),
        ('"first_window": 21', '"first_window": -1', "first_window: must be from 0"),
        ('"keys": "', '"keys": "A', "keys: "),
        ('"version": 1', '"version": 1, "more": 1', "more"),
        ("{", "", "not JSON"),
    ):
        with pytest.raises(ParameterError, match=said):
            issuer_keys_from_json(text.replace(old, new, 1))
