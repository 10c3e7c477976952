"""An issuer signs each permit of a person once, for windows of now, and answers retries alike."""

import stat
from pathlib import Path

import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.issuer import AlreadyIssued, Issued, Issuer, PrivateKeys, new_keys, read_keys
from aggregator.protocol.blind_signing import Blinded, blind, unblind
from aggregator.protocol.permit_requests import NO_SIGNATURE, PermitAnswer, PermitRequest, Place
from aggregator.protocol.signed_permits import is_signed, signed_text
from tests.support.clock import ManualClock
from tests.support.pair import NOW
from tests.support.permitted import DOMAIN, WINDOW_SECONDS, permitted
from tests.support.signed import KeptAnswers, issuer_keys, private_keys, signed_task, window_of

TASK = signed_task(privacy={"max_reports_per_person": 2})
FIRST = window_of(TASK)


def own_keys() -> PrivateKeys:
    return PrivateKeys(issuer_keys(FIRST), private_keys())


def issuer(store: KeptAnswers | None = None, clock: ManualClock | None = None) -> Issuer:
    kept = KeptAnswers() if store is None else store
    return Issuer(own_keys(), [TASK], kept, clock=clock or ManualClock(NOW), ahead=1)


def blinded(window: int, report_id: bytes = bytes(16)) -> tuple[bytes, bytes, Blinded]:
    modulus = issuer_keys(FIRST).of_window(window)
    assert modulus is not None
    text = signed_text(DOMAIN, window, report_id)
    return modulus, text, blind(modulus, text, SystemEntropy())


def asked(*wanted: tuple[Place, bytes]) -> bytes:
    return encode(PermitRequest(wanted))


def test_a_person_gets_signatures_that_verify_and_a_retry_gets_the_same_bytes() -> None:
    store = KeptAnswers()
    made = [blinded(FIRST), blinded(FIRST + 1)]
    places = [Place(DOMAIN, FIRST), Place(DOMAIN, FIRST + 1)]
    body = asked(*((place, each.sent) for place, (_, _, each) in zip(places, made, strict=True)))
    answer = issuer(store).issue("ada", body)
    for signature, (modulus, text, each) in zip(
        decode(PermitAnswer, answer).signatures, made, strict=True
    ):
        assert is_signed(modulus, text, unblind(modulus, signature, each.inverse))
    assert issuer(store).issue("ada", body) == answer
    assert issuer(store).issue("bob", body) == answer  # another person's, of the same key


def test_another_device_gets_what_the_first_did_not_ask_for_and_nothing_else() -> None:
    store = KeptAnswers()
    one, two = blinded(FIRST)[2], blinded(FIRST + 1)[2]
    answer = issuer(store).issue("ada", asked((Place(DOMAIN, FIRST), one.sent)))
    other = blinded(FIRST, b"?" * 16)[2]
    with pytest.raises(AlreadyIssued):
        issuer(store).issue("ada", asked((Place(DOMAIN, FIRST), other.sent)))
    both = asked((Place(DOMAIN, FIRST), other.sent), (Place(DOMAIN, FIRST + 1), two.sent))
    refused, given = decode(PermitAnswer, issuer(store).issue("ada", both)).signatures
    assert refused == NO_SIGNATURE
    assert given not in (NO_SIGNATURE, answer)
    # The second permit of the window, where the task lets a person have two.
    assert issuer(store).issue("ada", asked((Place(DOMAIN, FIRST, 1), other.sent)))


def test_of_two_answers_made_at_once_one_is_kept_and_given_out() -> None:
    class Raced(KeptAnswers):
        """Another process was quicker between look and keeping."""

        def keep(self, user: str, place: Place, issued: Issued) -> Issued:
            super().keep(user, place, Issued(b"other", bytes(256)))
            return super().keep(user, place, issued)

    with pytest.raises(AlreadyIssued):
        issuer(Raced()).issue("ada", asked((Place(DOMAIN, FIRST), blinded(FIRST)[2].sent)))


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        (Place(bytes(32), FIRST), "domain: no task here"),
        (Place(DOMAIN, FIRST - 1), "window: must be from"),
        (Place(DOMAIN, FIRST + 2), "window: must be from"),
        (Place(DOMAIN, FIRST, 2), "number: must be from 0 to 1, not 2"),
    ],
)
def test_what_nobody_gets_is_refused_and_nothing_is_signed(place: Place, reason: str) -> None:
    store = KeptAnswers()
    good = Place(DOMAIN, FIRST), blinded(FIRST)[2].sent
    with pytest.raises(ParameterError, match=reason):
        issuer(store).issue("ada", asked(good, (place, bytes(256))))
    assert not store.kept


def test_a_window_that_is_over_or_without_a_key_gives_no_permit() -> None:
    clock = ManualClock(NOW)
    signing = issuer(clock=clock)
    clock.advance(10 * WINDOW_SECONDS)
    for window, reason in ((FIRST, "must be from"), (FIRST + 10, "has no key")):
        with pytest.raises(ParameterError, match=reason):
            signing.issue("ada", asked((Place(DOMAIN, window), bytes(256))))


def test_what_may_be_deleted_is_what_nobody_gets_any_more() -> None:
    clock, store = ManualClock(NOW), KeptAnswers()
    made, own = issuer(store, clock), blinded(FIRST)[2].sent
    assert made.first_windows() == {DOMAIN: FIRST}
    made.issue("ada", asked((Place(DOMAIN, FIRST), own)))
    clock.advance(WINDOW_SECONDS)
    assert made.first_windows() == {DOMAIN: FIRST + 1}
    store.kept.clear()
    with pytest.raises(ParameterError, match="window: must be from"):
        made.issue("ada", asked((Place(DOMAIN, FIRST), own)))


def test_what_is_no_request_is_refused() -> None:
    good = Place(DOMAIN, FIRST), bytes(256)
    for body in (b"", b"\2" + asked(good)[1:], asked(), asked(good, good), asked(good) + b"?"):
        with pytest.raises(DecodeError):
            issuer().issue("ada", body)
    too_large = b"\xff" * 256
    with pytest.raises(ParameterError, match="below the key's modulus"):
        issuer().issue("ada", asked((Place(DOMAIN, FIRST), too_large)))


def test_a_task_of_other_keys_is_refused() -> None:
    for other in (permitted(), signed_task(window=4)):
        with pytest.raises(ParameterError, match="not signed with these keys"):
            Issuer(own_keys(), [other], KeptAnswers())


def test_keys_are_read_back_from_a_file_of_their_owner(tmp_path: Path) -> None:
    keys, file = new_keys(7, 2), tmp_path / "issuer.keys"
    keys.write(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = read_keys(file)
    assert found.public == keys.public
    numbers = [each.private_numbers() for each in (*keys.keys, *found.keys)]
    assert numbers[:2] == numbers[2:]
    with pytest.raises(FileExistsError):
        keys.write(file)
    data = file.read_bytes()
    for other in (b"", data + b"?", data.replace(b"window 7", b"window x"), data[:-40]):
        file.write_bytes(other)
        with pytest.raises(ParameterError, match="is no file of an issuer's keys"):
            read_keys(file)
    assert "PRIVATE" not in repr(keys)
