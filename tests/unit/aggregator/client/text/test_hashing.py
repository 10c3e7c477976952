"""Where an answer is counted: against a plain computation of the same, and against its promise."""

import hashlib
import itertools
import json
import unicodedata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.client.text import strings
from aggregator.client.text.hashing import NO_ANSWER, TextHashes, siphash
from aggregator.client.text.strings import fingerprint, normal_form
from aggregator.client.text.toss import Toss
from aggregator.errors import ParameterError
from tests.support.entropy import ScriptedEntropy, SeededEntropy

MEANING = hashlib.sha256(b"what do people write?").digest()
HASHES = TextHashes(MEANING, 16, 1024)
VECTORS = Path(__file__).with_name("vectors.json")


def plain_siphash(key: bytes, message: bytes) -> int:
    """SipHash-2-4 in plain integers, for messages of any length."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    state = [
        int.from_bytes(b"somepseudorandomlygeneratedbytes"[i : i + 8], "big")
        ^ (k0 if i % 16 == 0 else k1)
        for i in range(0, 32, 8)
    ]

    def turn(value: int, by: int) -> int:
        return ((value << by) | (value >> (64 - by))) & mask

    def rounds(count: int) -> None:
        a, b, c, d = state
        for _ in range(count):
            a, c = (a + b) & mask, (c + d) & mask
            b, d = turn(b, 13) ^ a, turn(d, 16) ^ c
            a, c = (turn(a, 32) + d) & mask, (c + b) & mask
            b, d = turn(b, 17) ^ c, turn(d, 21) ^ a
            c = turn(c, 32)
        state[:] = a, b, c, d

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        state[3] ^= word
        rounds(2)
        state[0] ^= word
    state[2] ^= 0xFF
    rounds(4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def plain_bucket(meaning: bytes, task: int, length: int, normal: str) -> int:
    if not normal:
        return 0
    key = hashlib.sha256(b"prio text key" + task.to_bytes(4, "big") + meaning).digest()[:16]
    hashed = hashlib.sha256(b"prio text\x01" + meaning + normal.encode()).digest()[:4]
    return 1 + plain_siphash(key, hashed) % (length - 1)


def test_the_plain_computation_is_siphash_by_the_vector_of_its_paper() -> None:
    assert plain_siphash(bytes(range(16)), bytes(range(15))) == 0xA129CA6149BE45E5


@given(st.binary(min_size=16, max_size=16), st.binary(min_size=4, max_size=4))
def test_many_hashes_at_once_are_those_of_the_plain_computation(key: bytes, text: bytes) -> None:
    words = np.frombuffer(text * 3, "<u4").astype(np.uint32)
    assert siphash(key, words).tolist() == [plain_siphash(key, text)] * 3


def test_the_vectors_for_other_clients_are_what_both_computations_give() -> None:
    vectors = json.loads(VECTORS.read_text())
    meaning = bytes.fromhex(vectors["meaning"])
    for case in vectors["cases"]:
        hashes = TextHashes(meaning, case["tasks"], case["length"])
        assert normal_form(case["answer"]) == case["normal"]
        assert fingerprint(case["normal"], meaning) == case["fingerprint"]
        buckets = [hashes.bucket(task, case["answer"]) for task in range(case["tasks"])]
        assert buckets == case["buckets"]
        plain = [
            plain_bucket(meaning, task, case["length"], case["normal"])
            for task in range(case["tasks"])
        ]
        assert buckets == plain


MARKS = "\u0301\u0316\u0323\u0345\u0327"


@given(st.text(st.sampled_from(f"aΐß가각{MARKS}") | st.characters(), max_size=40))
def test_the_normal_form_of_a_long_answer_is_that_of_its_definition(answer: str) -> None:
    whole = f"{answer * 9}{'x' * 300}{MARKS * 3}{answer}"
    apart = "".join(strings.unassigned().split(whole)[::2])
    decomposed = unicodedata.normalize("NFD", apart)
    assert strings._ordered(apart) == decomposed
    assert strings._folded(apart) == unicodedata.normalize("NFC", decomposed.casefold())


def test_marks_in_disorder_do_not_hold_a_server_that_takes_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python moves each past those before it: a megabyte of them from one person took hours."""
    moves = []

    def normalize(form: str, text: str) -> str:
        orders = [unicodedata.combining(each) for each in text]
        moves.append(sum(a > b > 0 for a, b in itertools.pairwise(orders)))
        return unicodedata.normalize(form, text)

    monkeypatch.setattr(strings, "unicodedata", SimpleNamespace(**vars(unicodedata)))
    monkeypatch.setattr(strings.unicodedata, "normalize", normalize)
    answer = "a" + MARKS * 200
    assert len(normal_form(answer)) > len(MARKS) * 100
    assert moves
    assert not any(moves)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Straße", "STRASSE"),
        ("e\u0301te\u0301", "ÉTÉ"),
        ("\u1fb3", "\u0391\u0345"),
        ("  two\t\nwords ", "Two\u00a0\u3000words"),
        ("a\x00b", "a b"),
        ("\ud800x", "\ufffdx"),
    ],
)
def test_answers_that_differ_in_case_composition_or_space_are_one(one: str, other: str) -> None:
    assert normal_form(one) == normal_form(other)
    assert HASHES.bucket(3, one) == HASHES.bucket(3, other)


@given(st.text(st.characters(exclude_categories=())))
def test_no_string_is_refused_and_a_normal_form_is_its_own(answer: str) -> None:
    normal = normal_form(answer)
    assert normal_form(normal) == normal
    assert unicodedata.is_normalized("NFC", normal)
    assert 0 <= HASHES.bucket(0, answer) < HASHES.length


@pytest.mark.parametrize("answer", [None, "", " ", "\t\n", "\u3000"])
def test_no_answer_has_a_bucket_that_no_string_is_in(answer: str | None) -> None:
    assert {HASHES.bucket(task, answer) for task in range(HASHES.tasks)} == {NO_ANSWER}
    prints = np.arange(20_000, dtype=np.uint32)
    found = HASHES.string_buckets(0, prints)
    assert found.min() == 0
    assert found.max() == HASHES.buckets - 1


def test_strings_are_spread_evenly_and_tasks_do_not_agree() -> None:
    prints = np.arange(200_000, dtype=np.uint32)
    one, other = HASHES.string_buckets(0, prints), HASHES.string_buckets(1, prints)
    expected = len(prints) / HASHES.buckets
    chi = sum((np.bincount(one, minlength=HASHES.buckets) - expected) ** 2) / expected
    assert abs(chi - HASHES.buckets) < 6 * (2 * HASHES.buckets) ** 0.5
    assert abs(np.count_nonzero(one == other) - expected) < 6 * expected**0.5


def test_another_question_has_other_hashes() -> None:
    other = TextHashes(bytes(32), 16, 1024)
    assert [other.bucket(task, "x") for task in range(16)] != [
        HASHES.bucket(task, "x") for task in range(16)
    ]


def test_a_toss_is_as_likely_to_fall_on_each_task() -> None:
    hashes, entropy = TextHashes(MEANING, 9, 16), SeededEntropy(b"tosses")
    counts = np.bincount([Toss.of(hashes, entropy).number for _ in range(9000)], minlength=9)
    assert abs(counts - 1000).max() < 6 * 1000**0.5


def test_a_toss_that_would_favour_some_task_is_made_again() -> None:
    drawn = ScriptedEntropy(bytes([255] * 8) + (20).to_bytes(8, "big"))
    # 2^64 is no multiple of 9, so the largest draws would fall on the first tasks too often.
    assert Toss.of(TextHashes(MEANING, 9, 16), drawn).number == 2


def test_a_toss_that_is_kept_gives_the_same_bucket_again() -> None:
    toss = Toss.of(HASHES, SeededEntropy(b"one person"))
    again = Toss(HASHES, toss.number)
    assert HASHES.bucket(again.number, "Tea") == HASHES.bucket(toss.number, " tea ")


@pytest.mark.parametrize(
    ("tasks", "length", "words"),
    [
        (7, 1024, "tasks must be from 8 to 1024, not 7"),
        (8, 15, "buckets must be from 16 to 1048576, not 15"),
    ],
)
def test_shapes_out_of_range_are_refused(tasks: int, length: int, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        TextHashes(MEANING, tasks, length)
    with pytest.raises(ParameterError, match="task must be from 0 to 15, not 16"):
        Toss(HASHES, 16)
