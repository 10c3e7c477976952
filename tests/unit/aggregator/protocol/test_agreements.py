"""What an operator has agreed on decides which tasks come in band; everything else is refused."""

from fractions import Fraction

import pytest

from aggregator.dap.auth import hash_token
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import Role
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.policy import PrivacyPolicy
from aggregator.errors import ParameterError
from aggregator.protocol.agreements import read_agreements, verify_key_of
from aggregator.protocol.provisioning import provision_text, read_provision
from aggregator.protocol.task import Task
from tests.support.in_band import (
    COLLECTOR_TOKEN,
    INIT,
    LEADER_TOKEN,
    agreed_collector,
    agreements,
    agreements_text,
    task_in_band,
)
from tests.support.tasks import ATTRIBUTION, HELPER_URL, LAPLACE, LEADER_URL, NO_NOISE


@pytest.mark.parametrize("role", [Role.LEADER, Role.HELPER])
def test_a_task_in_band_is_what_a_file_for_us_would_say(role: Role) -> None:
    task = task_in_band(privacy=LAPLACE)
    data = task.configuration_bytes
    given = agreements(role).partner_of(data).provision(data)
    secrets = {
        "verify_key": encode_base64url(verify_key_of(INIT, task.task_id)),
        "leader_token": LEADER_TOKEN,
        "collector_token": COLLECTOR_TOKEN,
    }
    assert given == read_provision(provision_text(task, role, secrets), role)


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ({"privacy": {**LAPLACE, "epsilon": "51/100"}}, "epsilon"),
        ({"privacy": NO_NOISE}, "without noise"),
        ({"privacy": {**LAPLACE, "bound": False}}, "no policy for tasks that bind none"),
        ({"privacy": LAPLACE, "min_batch_size": 2}, "min_batch_size"),
        ({"privacy": LAPLACE, "min_batch_size": 1001, "max_reports": 2000}, "max_reports"),
        ({"privacy": {**LAPLACE, "population": "staff"}}, "population"),
        ({"privacy": {**LAPLACE, "population": "p", "group": "g", "group_place": 0}}, "population"),
        ({"privacy": LAPLACE, "leader": "https://leader.example"}, "endpoints"),
        ({"privacy": LAPLACE, "helper": "https://other.example/"}, "endpoints"),
        ({"privacy": LAPLACE, "vdaf": {"type": "Prio3Sum", "max_measurement": 3}}, "vdaf_type"),
        (
            {"privacy": LAPLACE, "vdaf": {"type": "Prio3Histogram", "length": 1000}},
            "max_report_bytes",
        ),
        (
            {"privacy": LAPLACE, "permits": {"domain": encode_base64url(bytes(32))}},
            "permits",
        ),
    ],
)
def test_what_was_not_agreed_on_is_refused(task: dict[str, object], fault: str) -> None:
    data = task_in_band(**task).configuration_bytes
    with pytest.raises(ParameterError, match=fault):
        agreements().partner_of(data).provision(data)


def test_exact_results_and_policies_of_our_own_need_the_operators_word() -> None:
    data = task_in_band(privacy={**NO_NOISE, "bound": False}).configuration_bytes
    given = agreements(privacy={"mechanism": "None"}).partner_of(data).provision(data)
    assert not given.task.policy.mechanism.is_noisy
    laplace = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/4"}
    assert (
        agreements(privacy=laplace).partner_of(data).provision(data).task.policy.mechanism.is_noisy
    )
    too_weak = {"mechanism": "PureDpDiscreteLaplace", "epsilon": "3"}
    with pytest.raises(ParameterError, match="epsilon"):
        agreements(privacy=too_weak).partner_of(data).provision(data)


@pytest.mark.parametrize("own", [None, {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1/4"}])
def test_a_task_of_attribution_may_be_collected_at_any_epsilon_that_was_agreed_on(
    own: dict[str, str] | None,
) -> None:
    def taken(of_task: dict[str, str | bool], privacy: dict[str, str] | None) -> Task:
        data = task_in_band(privacy=of_task, attribution=ATTRIBUTION).configuration_bytes
        named = agreed_collector(Role.LEADER, ATTRIBUTION["collector_identity"], "x" * 22)
        agreed = agreements(privacy=privacy, collectors=[named])
        return agreed.partner_of(data).provision(data).task

    unbound = {**LAPLACE, "bound": False}
    task = taken(unbound, own)
    assert not task.is_policy_bound
    assert task.policy == PrivacyPolicy(PureDpDiscreteLaplace(Fraction(1, 2)))
    assert not taken(unbound, {"mechanism": "None"}).policy.mechanism.is_noisy
    bound = taken({**LAPLACE, "epsilon": "1/8"}, own)
    assert bound.policy.mechanism == PureDpDiscreteLaplace(Fraction(1, 8))


def test_a_named_population_is_taken_if_the_operator_named_it_too() -> None:
    data = task_in_band(privacy={**LAPLACE, "population": "staff"}).configuration_bytes
    given = agreements(partner={"populations": "staff"}).partner_of(data).provision(data)
    assert given.task.policy.population == "staff"


def test_a_configuration_of_enormous_sizes_is_refused_before_anything_is_made_of_it() -> None:
    data = task_in_band(privacy=LAPLACE).configuration_bytes
    huge = data.replace((4).to_bytes(4, "big") + (2).to_bytes(4, "big"), b"\x03\xff\xff\xff" * 2)
    assert huge != data
    with pytest.raises(ParameterError, match=r"max_report_bytes|at most"):
        agreements().partner_of(huge).provision(huge)


@pytest.mark.parametrize("cut", [b"", b"\x00", bytes(40)])
def test_bytes_that_are_no_configuration_are_refused(cut: bytes) -> None:
    with pytest.raises(ParameterError, match="configuration"):
        agreements().partner_of(cut)
    assert agreements().caller_hashes(cut) == []


def test_a_longer_encoding_of_the_same_task_is_refused() -> None:
    data = task_in_band(privacy=LAPLACE).configuration_bytes + b"\x00"
    with pytest.raises(ParameterError, match="configuration"):
        agreements().partner_of(data)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("version = 1", "version = 2", "version: must be 1"),
        ("max_tasks = 8", "", "max_tasks: missing"),
        ("max_epsilon", "max_epsilom", "max_epsilon: missing"),
        ('max_epsilon = "1/2"', 'max_epsilon = "1/2"\nbatches = 3', "batches: no such setting"),
        ("Prio3Histogram", "Prio3Median", "vdafs: must be names"),
        (LEADER_TOKEN, "short", "leader_token: must have at least"),
        (encode_base64url(INIT), encode_base64url(INIT[:16]), "verify_key_init: must be 32 bytes"),
        ("[[partner]]", "[partner]", "partner: must be a table"),
        ("leader = ", "leader == ", r"not TOML \(line"),
        (COLLECTOR_TOKEN, "", "collector_token: must have at least"),
        (LEADER_TOKEN, COLLECTOR_TOKEN, "collector_token: must not be leader_token"),
        (LEADER_TOKEN, LEADER_TOKEN + r"\r\nx: y", "leader_token: must be letters"),
        (LEADER_TOKEN, LEADER_TOKEN + " é", "leader_token: must be letters"),
        (LEADER_URL, "leader.example", "leader: must be"),
        (HELPER_URL, "https://helper.example/?", "helper: must be"),
        ("min_batch_size = 3", "min_batch_size = 0", "min_batch_size, max_reports: must be"),
        ("max_reports = 1000", "max_reports = 2", "min_batch_size, max_reports: must be"),
        ("max_reports = 1000", f"max_reports = {2**63}", "min_batch_size, max_reports: must be"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused_by_name(old: str, new: str, fault: str) -> None:
    text = agreements_text(Role.LEADER)
    assert old in text
    with pytest.raises(ParameterError, match=fault) as raised:
        read_agreements(text.replace(old, new), Role.LEADER)
    assert COLLECTOR_TOKEN not in str(raised.value)
    assert encode_base64url(INIT) not in str(raised.value)


SHOP = agreed_collector(Role.LEADER, "shop.example", "agreed-for-the-shop-alone")


@pytest.mark.parametrize(
    ("tables", "fault"),
    [
        ([SHOP, SHOP], "identity: 'shop.example' has two tables"),
        ([SHOP, {**SHOP, "identity": "other.example"}], "token: one stands twice"),
        ([{**SHOP, "token": COLLECTOR_TOKEN}], "token: one stands twice"),
        ([{**SHOP, "token": LEADER_TOKEN}], "must not be leader_token"),
        ([{**SHOP, "token": "short"}], "token: must have at least"),
        ([{**SHOP, "identity": "https://shop.example/"}], "identity: must be a host alone"),
        ([{**SHOP, "identity": "Shop.example"}], "identity: must be a host alone"),
        ([{**SHOP, "identity": ""}], "must be a host"),
        ([{**SHOP, "hpke_config": "AAAA"}], "hpke_config"),
        ([{**SHOP, "max_open_job": 2}], r"partner 1\.collector 1\.max_open_job: no such setting"),
        (
            [{name: value for name, value in SHOP.items() if name != "max_tasks"}],
            r"partner 1\.collector 1\.max_tasks: missing",
        ),
    ],
)
def test_a_table_of_a_collector_that_cannot_be_meant_is_refused_by_name(
    tables: list[dict[str, str | int]], fault: str
) -> None:
    with pytest.raises(ParameterError, match=fault) as raised:
        agreements(collectors=tables)
    assert str(SHOP["token"]) not in str(raised.value)


def test_a_partner_may_have_collectors_with_identities_alone_but_needs_one() -> None:
    def without(text: str) -> str:
        lines = text.splitlines()
        return "\n".join(each for each in lines if not each.startswith("collector_"))

    with pytest.raises(ParameterError, match="collector_hpke_config: missing"):
        read_agreements(without(agreements_text(Role.LEADER)), Role.LEADER)
    read = read_agreements(without(agreements_text(Role.LEADER, collectors=[SHOP])), Role.LEADER)
    data = task_in_band(privacy=LAPLACE).configuration_bytes
    with pytest.raises(ParameterError, match="collector_identity: none is not in the agreement"):
        read.partner_of(data).provision(data)
    assert read.caller_hashes(data) == [hash_token(str(SHOP["token"]))]


def test_two_partners_with_the_same_endpoints_are_refused() -> None:
    text = agreements_text(Role.HELPER)
    again = text[text.index("[[partner]]") :]
    with pytest.raises(ParameterError, match="partner 2: has the endpoints of another one"):
        read_agreements(text + again, Role.HELPER)


OTHER = "https://other.example/"
OTHER_TOKEN, OTHER_INIT = LEADER_TOKEN[::-1], encode_base64url(INIT[::-1])


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ((LEADER_TOKEN, OTHER_TOKEN), "verify_key_init: two partners have one"),
        ((encode_base64url(INIT), OTHER_INIT), "leader_token: two partners have one"),
    ],
)
@pytest.mark.parametrize("role", Role)
def test_what_two_aggregators_know_no_third_one_may(
    role: Role, changed: tuple[str, str], fault: str
) -> None:
    first = agreements_text(role)
    partner = HELPER_URL if role is Role.LEADER else LEADER_URL
    second = first[first.index("[[partner]]") :].replace(partner, OTHER)
    with pytest.raises(ParameterError, match=fault):
        read_agreements(first + second.replace(*changed), role)
    apart = second.replace(LEADER_TOKEN, OTHER_TOKEN).replace(encode_base64url(INIT), OTHER_INIT)
    assert len(read_agreements(first + apart, role).partners) == 2
    # One party may have endpoints that are written in two ways.
    again = first[first.index("[[partner]]") :].replace(partner, f"{partner}more/")
    assert len(read_agreements(first + again, role).partners) == 2
    if role is Role.LEADER:
        swapped = apart.replace(COLLECTOR_TOKEN, LEADER_TOKEN)
        with pytest.raises(ParameterError, match="must not be leader_token"):
            read_agreements(first + swapped, role)


def test_no_secret_of_an_agreement_is_shown() -> None:
    shown = repr(agreements())
    for secret in (LEADER_TOKEN, COLLECTOR_TOKEN, repr(INIT), encode_base64url(INIT)):
        assert secret not in shown
    assert LEADER_URL in shown
