import pytest

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import JANUS
from aggregator.errors import ParameterError
from aggregator.protocol.groups import check_alike
from aggregator.protocol.permit_codes import code_of, secret_of
from aggregator.protocol.permit_lists import (
    PermitList,
    Replacements,
    listed,
    read_lists,
    read_replacements,
)
from aggregator.protocol.permits import Permits, is_of_window
from aggregator.protocol.reports import prepare_reports, report_sizes
from aggregator.protocol.signed_permits import IssuerKeys
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import (
    task_from_toml,
    task_to_toml,
    tasks_from_toml,
    tasks_to_json,
)
from tests.support.entropy import SeededEntropy
from tests.support.permitted import DOMAIN, OTHER_ID, PERMITS, permitted
from tests.support.signed import signed_task
from tests.support.tasks import NO_NOISE, make_task, task_text

SECRET = bytes(range(16))
KEY = encode_base64url(b"\xc0" + bytes(254) + b"\x01")
TABLE = f'\n[permits]\ndomain = "{encode_base64url(DOMAIN)}"\n'


def test_a_task_with_permits_is_what_its_file_says() -> None:
    task = permitted()
    assert task.permits == Permits(DOMAIN)
    assert task_from_toml(task_to_toml(task)) == task
    assert tasks_from_toml(tasks_to_json([task])) == [task]
    assert task.configuration.extensions[-1] == (0xFF51, encode(PERMITS))
    assert task.fingerprint != make_task(privacy={**NO_NOISE, "window": 2}).fingerprint


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\2\1" + DOMAIN, "version 2 and kind 1 are not known"),
        (b"\1\3" + DOMAIN + bytes(32), "version 1 and kind 3 are not known"),
        (b"\1\2" + DOMAIN, "32 bytes expected, 0 left"),
        (b"\1\2" + DOMAIN + bytes(33), "1 bytes left over"),
        (b"\1\1" + DOMAIN + b"?", "1 bytes left over"),
        (b"\1\1" + DOMAIN[1:], "32 bytes expected, 31 left"),
    ],
)
def test_another_encoding_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        decode(Permits, data)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            TABLE.replace(encode_base64url(DOMAIN), "AAAA"),
            "permits.domain: must be 32 bytes, not 3",
        ),
        (TABLE.replace(encode_base64url(DOMAIN), "?"), r"permits\.domain: "),
        (TABLE + "keys = 1\n", "permits.keys"),
        (TABLE + 'keys = "AAAA"\n', "permits.first_window"),
        (TABLE + "first_window = 1\n", "permits.first_window"),
        (TABLE + 'first_window = 1\nkeys = "AAAA"\n', "key 1 must be an odd number of 2048 bits"),
        (TABLE + 'first_window = 1\nkeys = "?"\n', r"permits\.keys: "),
        (TABLE + f'first_window = -1\nkeys = "{KEY}"\n', "first_window"),
        (TABLE + f'first_window = 1\nkeys = "{KEY} {KEY}"\n', "two windows have the same key"),
        (
            TABLE + f'first_window = 1\nkeys = "{" ".join([KEY] * 257)}"\n',
            "must be 1 to 256, not 257",
        ),
    ],
)
def test_a_table_that_is_wrong_is_refused_by_the_name_of_its_setting(
    text: str, reason: str
) -> None:
    with pytest.raises(ParameterError, match=reason):
        task_from_toml(task_text() + text)


def test_keys_that_are_not_the_configurations_are_refused() -> None:
    task = signed_task()
    keys = task.issuer_keys
    assert keys is not None
    later = IssuerKeys(keys.first + 1, keys.moduli)
    fewer = IssuerKeys(keys.first, keys.moduli[:-1])
    for other in (None, later, fewer):
        with pytest.raises(ParameterError, match=r"permits\.keys: must be those whose digest"):
            Task.create(
                task.task_id,
                task.configuration,
                task.collector_hpke_config,
                task.max_reports,
                issuer_keys=other,
            )


def test_the_ids_of_signed_permits_name_their_window() -> None:
    signed = Permits(DOMAIN, bytes(32))
    opening = bytes(16)
    ids = {signed.report_id(opening, window) for window in range(1000, 1256)}
    assert len(ids) == 256
    assert {each[:15] for each in ids} == {PERMITS.report_id(opening)[:15]}
    for window in range(1000, 1256):
        named = signed.report_id(opening, window)
        fitting = [each for each in range(1000, 1256) if is_of_window(named, each)]
        assert fitting == [window]


def test_permits_need_a_policy_that_is_bound_and_a_profile_of_ours() -> None:
    with pytest.raises(ParameterError, match="permits: need a privacy table that is bound"):
        task_from_toml(task_text(privacy={**NO_NOISE, "bound": False}) + TABLE)
    with pytest.raises(ParameterError, match="permits: other programs of profile janus know none"):
        task_from_toml(task_text(profile=JANUS.name) + TABLE)
    assert task_from_toml(task_text(profile="dap-19") + TABLE).permits == PERMITS


@pytest.mark.parametrize(("length", "start"), [(7, 0), (7, 3), (1, 0), (10, 9)])
def test_windows_are_numbered_as_they_follow_each_other(length: int, start: int) -> None:
    task = permitted(window=length, privacy={"window_start": start})
    window = task.policy.window
    assert window is not None
    numbers = [task.permit_window(unit.to_bytes(8, "big")) for unit in range(40)]
    firsts = [window.first_unit(unit) for unit in range(40)]
    assert numbers[0] in (0, 1)
    for unit in range(39):
        is_next = firsts[unit] != firsts[unit + 1]
        assert numbers[unit + 1] - numbers[unit] == is_next


def test_without_windows_all_permits_are_of_window_0() -> None:
    for mode in ("time_interval", "leader_selected"):
        assert permitted(window=None, batch_mode=mode).permit_window(bytes([255] * 8)) == 0


def test_a_permit_adds_twenty_bytes_to_the_helpers_share_alone() -> None:
    plain = report_sizes(make_task(privacy={**NO_NOISE, "window": 2}))
    with_one = report_sizes(permitted())
    assert plain == with_one._replace(helper_payload=with_one.helper_payload - 20, permit=0)


def test_reports_have_the_ids_of_their_permits_and_none_is_made_without() -> None:
    task, entropy = permitted(), SeededEntropy(b"x")
    opening = PERMITS.opening(SECRET, 3)
    (made,) = prepare_reports(task, [1], task.time(0), entropy, [opening])
    assert made.metadata.report_id.value == PERMITS.report_id(opening)
    assert opening.hex() not in repr(made)
    for given, reason in (
        (None, "permits: the task needs one for each of 1 reports, 0 given"),
        ([], "0 given"),
        ([opening, opening], "2 given"),
        ([b"short"], "permits: must be 16 bytes, not 5"),
    ):
        with pytest.raises(ParameterError, match=reason):
            prepare_reports(task, [1], task.time(0), entropy, given)


def test_the_tasks_of_a_group_have_one_domain() -> None:
    group = {"group": "g", "group_place": 0}
    one = permitted(privacy=group)
    check_alike(one, permitted(OTHER_ID, privacy={**group, "group_place": 1}))
    with pytest.raises(ParameterError, match="another domain of permits"):
        check_alike(one, permitted(OTHER_ID, bytes(32), privacy=group))


def test_a_code_is_read_however_it_is_typed() -> None:
    code = code_of(SECRET)
    typed = code.upper().replace("-", " ").replace("0", "O").replace("1", "l")
    assert secret_of(typed) == secret_of(code) == SECRET


@pytest.mark.parametrize("place", range(34))
def test_a_slip_in_a_code_is_noticed_and_not_repeated(place: int) -> None:
    code = code_of(SECRET)
    if code[place] == "-":
        return
    for letter in "0123456789abcdefghjkmnpqrstvwxyz":
        if letter != code[place]:
            slipped = code[:place] + letter + code[place + 1 :]
            with pytest.raises(ParameterError) as failed:  # but for one slip in 4096
                secret_of(slipped)
            assert code[-4:] not in str(failed.value)


@pytest.mark.parametrize(
    ("code", "reason"),
    [("", "not 0"), ("u" * 28, "28 others"), ("0" * 27, "not 27"), ("0" * 29, "not 29")],
)
def test_what_is_no_code_is_refused(code: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        secret_of(code)


def rows(*windows: tuple[int, list[bytes]]) -> bytes:
    head = b"prio permits 1\n" + DOMAIN + len(windows).to_bytes(4, "big")
    return head + b"".join(
        window.to_bytes(8, "big") + len(each).to_bytes(4, "big") + b"".join(each)
        for window, each in windows
    )


A, B, C = (bytes([n]) * 16 for n in (1, 2, 3))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "the file is empty"),
        (b"other", "this is not a list of permits"),
        (rows((1, [B, A])), "window 1: entries must strictly increase"),
        (rows((1, [A, A])), "window 1: entries must strictly increase"),
        (rows((2, [A]), (1, [B])), "window 1: windows must strictly increase"),
        (rows((1, [A]), (1, [B])), "window 1: windows must strictly increase"),
        (rows((2**63, [A])), "below 2\\^63"),
        (rows((1, [A]), (2, [A])), "an entry of window 2 is in another window, too"),
        (rows((1, [A, B]))[:-1], "16 bytes expected|32 bytes expected"),
        (rows((1, [A])) + b"?", "this is not a list of permits"),
    ],
)
def test_a_list_has_one_form(data: bytes, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read_lists(data)


def test_a_list_does_not_say_in_which_order_its_permits_were_made() -> None:
    one, two = listed(DOMAIN, {2: [C], 1: [B, A]}), listed(DOMAIN, {1: [A, B], 2: [C]})
    assert encode(one) == encode(two)
    assert decode(PermitList, encode(one)).count == 3


def test_replacements_have_one_form() -> None:
    made = Replacements(DOMAIN, {1: [(A, C), (B, A)]})
    assert read_replacements(encode(made)) == (made,)
    with pytest.raises(DecodeError, match="entries must strictly increase"):
        read_replacements(encode(Replacements(DOMAIN, {1: [(A, B), (A, C)]})))
    with pytest.raises(DecodeError, match="not a list of replaced permits"):
        read_replacements(rows((1, [A])))
