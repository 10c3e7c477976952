"""Exchanges by lanes are used as long as they agree with the library, and reject nothing alone."""

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from aggregator.dap import hpke_batch, x25519
from aggregator.dap.hpke import HpkeKeypair, generate_keypair, open_, seal
from aggregator.dap.hpke_batch import open_many, seal_many
from aggregator.dap.hpke_suites import SUITES, Suite
from aggregator.dap.x25519 import FEWEST, Lanes, by_library
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from field.lanes import KernelMissing

PAIRS = 40
INFO, AAD = b"info", b"aad"


def keys(count: int) -> list[bytes]:
    return [os.urandom(32) for _ in range(count)]


def by_plain(private_keys: Sequence[bytes], public_keys: Sequence[bytes]) -> list[bytes | None]:
    return [by_library(*pair) for pair in zip(private_keys, public_keys, strict=True)]


class Lying:
    """Lanes as on a broken processor: some results are others than they should be."""

    def __init__(self, wrong: Callable[[int], bool], answer: bytes | None = b"\1" * 32) -> None:
        self.wrong, self.answer, self.is_tested = wrong, answer, False

    def __call__(
        self, private_keys: Sequence[bytes], public_keys: Sequence[bytes]
    ) -> list[bytes | None]:
        right = by_plain(private_keys, public_keys)
        if not self.is_tested:  # it becomes wrong later
            self.is_tested = True
            return right
        return [self.answer if self.wrong(i) else each for i, each in enumerate(right)]


class Drawn:
    """A source of zeros: the first pair is drawn."""

    def bytes(self, size: int) -> bytes:
        return bytes(size)


@pytest.fixture
def lanes(monkeypatch: pytest.MonkeyPatch) -> Lanes:
    """Lanes on any processor, by the library; tests break them."""
    monkeypatch.setattr(x25519, "has_lanes", lambda: True)
    monkeypatch.setattr(x25519, "_exchanged", by_plain)
    fresh = Lanes(SystemEntropy())
    monkeypatch.setattr(hpke_batch, "LANES", fresh)
    return fresh


def test_lanes_that_fail_their_first_test_are_off(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x25519, "_exchanged", lambda private, _: [b"\1" * 32] * len(private))
    said: list[str] = []
    lanes.when_off = said.append
    assert lanes.exchange(keys(PAIRS), keys(PAIRS)) is None
    assert lanes.exchange(keys(PAIRS), keys(PAIRS)) is None
    assert said == [lanes.fault] == ["lanes failed their test at the start"]


def test_a_lane_that_becomes_wrong_is_found_by_the_pair_that_is_drawn(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x25519, "_exchanged", Lying(lambda _: True))
    assert lanes.exchange(keys(PAIRS), keys(PAIRS)) is None
    assert lanes.fault == "a lane, computed again, had another result"


def test_every_pair_is_drawn_at_some_time(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong lane of eight is found soon: in 400 batches it is missed once in 10^23 times."""
    monkeypatch.setattr(x25519, "_exchanged", Lying(lambda place: place % 8 == 5))
    batches = 0
    while lanes.exchange(keys(8), keys(8)) is not None:
        batches += 1
        assert batches < 400


def test_a_few_pairs_and_other_processors_have_no_lanes(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert lanes.exchange(keys(FEWEST - 1), keys(FEWEST - 1)) is None
    monkeypatch.setattr(x25519, "has_lanes", lambda: False)
    assert lanes.exchange(keys(PAIRS), keys(PAIRS)) is None
    assert lanes.fault is None


def test_a_missing_kernel_is_no_fault(lanes: Lanes, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> list[bytes | None]:
        raise KernelMissing

    monkeypatch.setattr(x25519, "_exchanged", missing)
    assert lanes.exchange(keys(PAIRS), keys(PAIRS)) is None
    monkeypatch.setattr(x25519, "_exchanged", by_plain)
    private, public = keys(PAIRS), keys(PAIRS)
    assert lanes.exchange(private, public) == by_plain(private, public)


def opened_of(keypair: HpkeKeypair, sealed: list[bytes], *, broken: int | None = None) -> object:
    ciphertexts = [seal(keypair.config, INFO, AAD, text, SystemEntropy()) for text in sealed]
    payloads = [each.payload for each in ciphertexts]
    if broken is not None:
        payloads[broken] = bytes(len(payloads[broken]))
    return open_many(
        {keypair.config.id: keypair},
        INFO,
        [each.config_id for each in ciphertexts],
        [each.enc for each in ciphertexts],
        payloads,
        [AAD] * len(sealed),
    )


@pytest.mark.parametrize("answer", [b"\1" * 32, None], ids=["another secret", "no secret"])
def test_a_wrong_lane_rejects_no_report(
    answer: bytes | None,
    lanes: Lanes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever pair is drawn for the check, all messages open, and lanes are off afterwards."""
    monkeypatch.setattr(x25519, "_exchanged", Lying(lambda place: place == 7, answer))
    monkeypatch.setattr(lanes, "_entropy", Drawn())
    texts = [b"a message %d" % place for place in range(PAIRS)]
    keypair = generate_keypair(3, SystemEntropy())
    assert opened_of(keypair, texts) == texts
    assert lanes.fault == "a lane had a secret with which a message does not open"
    assert opened_of(keypair, texts) == texts


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name.replace("/", "_"))
def test_messages_sealed_together_are_those_that_each_is_alone(suite: Suite) -> None:
    keypair = generate_keypair(3, SystemEntropy(), suite)
    drawn = [suite.kem.draw_bytes(SystemEntropy()) for _ in range(PAIRS)]
    texts = [b"a message %d" % place for place in range(PAIRS)]
    alone = [
        seal_many(keypair.config, INFO, [each], [AAD], [text])[0]
        for each, text in zip(drawn, texts, strict=True)
    ]
    assert seal_many(keypair.config, INFO, drawn, [AAD] * PAIRS, texts) == alone
    assert [open_(keypair, INFO, AAD, each) for each in alone] == texts


def test_what_is_sealed_by_a_broken_lane_opens_all_the_same(
    lanes: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pair that is drawn is found wrong, and the library seals all of it."""
    monkeypatch.setattr(x25519, "_exchanged", Lying(lambda _: True))
    keypair = generate_keypair(3, SystemEntropy())
    sealed = seal_many(keypair.config, INFO, keys(PAIRS), [AAD] * PAIRS, [b"text"] * PAIRS)
    assert [open_(keypair, INFO, AAD, each) for each in sealed] == [b"text"] * PAIRS
    assert lanes.fault is not None


def test_nothing_is_sealed_to_a_key_without_secrets(lanes: Lanes) -> None:
    config = replace(generate_keypair(3, SystemEntropy()).config, public_key=bytes(32))
    with pytest.raises(ParameterError, match="public key of HPKE configuration 3 is unusable"):
        seal_many(config, INFO, keys(PAIRS), [AAD] * PAIRS, [b"text"] * PAIRS)
    assert lanes.fault is None


def test_a_message_that_opens_by_neither_is_no_fault_of_lanes(lanes: Lanes) -> None:
    texts = [b"a message %d" % place for place in range(PAIRS)]
    opened = opened_of(generate_keypair(3, SystemEntropy()), texts, broken=9)
    assert opened == [*texts[:9], None, *texts[10:]]
    assert lanes.fault is None


def test_a_key_of_another_size_is_nobodys_fault(lanes: Lanes) -> None:
    keypair = generate_keypair(3, SystemEntropy())
    sealed = [seal(keypair.config, INFO, AAD, b"text", SystemEntropy()) for _ in range(PAIRS)]
    encs = [each.enc for each in sealed]
    encs[2] = encs[2] + b"\0"
    opened = open_many(
        {3: keypair}, INFO, [3] * PAIRS, encs, [each.payload for each in sealed], [AAD] * PAIRS
    )
    assert opened == [b"text", b"text", None, *[b"text"] * (PAIRS - 3)]
    assert lanes.fault is None


@pytest.mark.parametrize("suite", SUITES.values(), ids=lambda suite: suite.name.replace("/", "_"))
def test_messages_of_every_suite_open_by_the_lanes_of_this_processor(suite: Suite) -> None:
    texts = [b"a message %d" % place for place in range(PAIRS)]
    assert opened_of(generate_keypair(3, SystemEntropy(), suite), texts) == texts


def test_lanes_show_no_key(lanes: Lanes, caplog: pytest.LogCaptureFixture) -> None:
    private = keys(PAIRS)
    with caplog.at_level(logging.DEBUG):
        lanes.exchange(private, keys(PAIRS))
    shown = repr(lanes) + caplog.text
    assert not any(each.hex() in shown or repr(each) in shown for each in private)
