"""The public task file: what is written is read back, and what cannot be run is refused by name."""

import dataclasses
from fractions import Fraction

import pytest

from aggregator.codec import decode, encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.extensions import Extension
from aggregator.dap.profile import TASK_EXTENSION_PRIVACY
from aggregator.dap.task import TaskConfiguration
from aggregator.dap.times import Interval, Time
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.no_privacy import NoPrivacy
from aggregator.dp.policy import PrivacyPolicy, encode_policy
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from tests.support.tasks import (
    ATTRIBUTION,
    LAPLACE,
    NO_NOISE,
    TASK_ID,
    collector_keypair,
    make_task,
    task_text,
)

INTERVAL = {"start": 1000, "duration": 50}
SUM_VEC = {"type": "Prio3SumVec", "length": 3, "max_measurement": 2**40, "chunk_length": 7}


@pytest.mark.parametrize(
    "task",
    [
        make_task(),
        make_task(SUM_VEC, LAPLACE, INTERVAL),
        make_task({"type": "Prio3Count"}, {**LAPLACE, "bound": False}),
        make_task(profile="dap-19", task_info=""),
        make_task(task_info='quotes " and \\ and € and ü'),
        make_task(privacy={**LAPLACE, "budget": "3", "population": "patients"}),
        make_task(
            privacy={"mechanism": "TruncatedGeometric", "epsilon": "1", "delta": "1e-5"},
        ),
        make_task(privacy={"mechanism": "DiscreteGaussian", "rho": "1/8"}),
        make_task(privacy={**LAPLACE, "bound": False}, attribution=ATTRIBUTION, task_info=""),
    ],
    ids=[
        *("plain", "vector", "unbound", "draft", "quotes", "budget", "geometric", "gaussian"),
        "attribution",
    ],
)
def test_a_task_that_is_written_is_read_back(task: Task) -> None:
    again = task_from_toml(task_to_toml(task))
    assert again == task
    assert again.configuration_bytes == task.configuration_bytes
    assert again.fingerprint == task.fingerprint
    assert again.prio3 == task.prio3


def test_a_task_knows_what_its_file_says() -> None:
    task = make_task(SUM_VEC, LAPLACE, INTERVAL)
    assert task.task_id == TASK_ID
    assert task.interval == Interval.of(1000, 50)
    assert task.min_batch_size == 3
    assert task.collector_hpke_config == collector_keypair().config
    assert task.policy.mechanism == PureDpDiscreteLaplace(Fraction(1, 2))
    assert task.prio3.circuit.parameters == {k: v for k, v in SUM_VEC.items() if k != "type"}
    assert task.ctx == b"dap-18" + TASK_ID.value
    assert task.time(1234) == Time(12)


def test_the_best_chunk_length_is_filled_in() -> None:
    task = make_task({"type": "Prio3Histogram", "length": 100})
    assert "chunk_length = " in task_to_toml(task)


def test_the_policy_is_bound_into_the_configuration_and_changes_the_fingerprint() -> None:
    task = make_task(privacy=LAPLACE)
    assert task.is_policy_bound
    assert task.configuration.privacy == encode_policy(task.policy)
    other = make_task(privacy={**LAPLACE, "epsilon": "1/3"})
    assert other.fingerprint != task.fingerprint


def test_a_task_knows_whether_its_configuration_leaves_the_policy_out() -> None:
    task = make_task(privacy={**LAPLACE, "bound": False})
    assert not task.is_policy_bound
    assert task.configuration.privacy is None
    assert task.policy == make_task(privacy=LAPLACE).policy


def test_the_policy_that_is_applied_is_decoded_from_the_configurations_own_bytes() -> None:
    task = make_task(privacy=LAPLACE)
    configuration = decode(TaskConfiguration, task.configuration_bytes)
    again = Task.create(TASK_ID, configuration, task.collector_hpke_config, task.max_reports)
    assert again == task
    with pytest.raises(ParameterError, match="already carries a policy"):
        Task.create(
            TASK_ID,
            configuration,
            task.collector_hpke_config,
            task.max_reports,
            PrivacyPolicy(NoPrivacy()),
        )


def test_a_task_without_a_policy_is_refused() -> None:
    task = make_task(privacy={**NO_NOISE, "bound": False})
    with pytest.raises(ParameterError, match="a task needs a policy"):
        Task.create(TASK_ID, task.configuration, task.collector_hpke_config, task.max_reports)


def test_a_task_with_an_extension_that_we_do_not_know_is_refused() -> None:
    task = make_task()
    extensions = (*task.configuration.extensions, Extension(0xFFF0, b""))
    configuration = dataclasses.replace(task.configuration, extensions=extensions)
    with pytest.raises(ParameterError, match="0xfff0 is not known"):
        Task.create(TASK_ID, configuration, task.collector_hpke_config, task.max_reports)


def test_a_task_of_attribution_may_have_no_task_info_in_any_draft() -> None:
    task = make_task(privacy=LAPLACE, attribution=ATTRIBUTION, task_info="")
    assert task.attribution == Attribution(**ATTRIBUTION)
    with pytest.raises(ParameterError, match="task_info: must have 1 to 255 bytes in dap-18"):
        make_task(privacy=LAPLACE, task_info="")


@pytest.mark.parametrize(
    ("privacy", "permits", "named"),
    [
        ({"mechanism": "DiscreteGaussian", "rho": "1/8"}, None, "attribution: each collection"),
        (NO_NOISE, {"domain": "A" * 43}, "permits: "),
    ],
)
def test_a_task_of_attribution_has_an_epsilon_and_no_permits(
    privacy: dict[str, str | int], permits: dict[str, str] | None, named: str
) -> None:
    with pytest.raises(ParameterError, match=named):
        make_task(privacy=privacy, attribution=ATTRIBUTION, permits=permits)


def test_a_policy_that_is_not_canonical_is_refused() -> None:
    task = make_task(privacy=LAPLACE)
    data = encode(task.policy).replace(b"\x031/2", b"\x032/4")
    configuration = dataclasses.replace(
        task.configuration, extensions=(Extension(TASK_EXTENSION_PRIVACY, data),)
    )
    with pytest.raises(ParameterError, match="canonical"):
        Task.create(TASK_ID, configuration, task.collector_hpke_config, task.max_reports)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("version = 1", "version = 2", "version"),
        ("time_precision = 100", "time_precision = 0", "time_precision"),
        ("time_precision = 100", "time_precision = -5", "time_precision"),
        ("time_precision = 100", 'time_precision = "100"', "time_precision"),
        ("time_precision = 100", "time_precision = true", "time_precision"),
        ("min_batch_size = 3", "min_batch_size = 0", "min_batch_size"),
        ("max_reports = 1000", "max_reports = 2", "max_reports"),
        ("max_reports = 1000", "max_reports = 18446744073709551615", "max_reports"),
        ('"time_interval"', '"fixed_size"', "batch_mode"),
        ('leader = "https://', 'leader = "ftp://', "leader"),
        ('leader = "https://', 'leader = "https://leader.example@', "leader: must be http"),
        ('leader = "https://', 'leader = "https://evil/?x', "leader: must be http:// or https://"),
        ('leader = "https://', 'leader = "https://evil/#x', "leader: must be http:// or https://"),
        ('leader = "https://', 'leader = "https://a..', "leader: must be http:// or https://, a"),
        ('leader = "https://', "a." * 20_000 + 'a = "https://', "key of more than 32 parts"),
        ('leader = "https://', "'a' . " * 33 + 'a = "https://', "key of more than 32 parts"),
        ('leader = "https://', "# " + "x" * 2**20 + '\nleader = "https://', "at most 1,048,576"),
        ('leader = "', 'leader = "ü', "leader"),
        ("min_batch_size = 3\n", "", "min_batch_size"),
        ("min_batch_size = 3\n", "min_batch_size = 3\nmax_batch = 3\n", "max_batch"),
        ('task_info = "a task of the tests"', 'task_info = ""', "task_info"),
        ("version = 1", 'version = 1\nprofile = "dap-17"', "profile: must be dap-18 or dap-19"),
        ("task of the tests", r"task\u001b[31m", "task_info: must be one line, without control"),
        ("task of the tests", r"task\nof two lines", "task_info: must be one line"),
        ('leader = "https://', r'leader = "https://\u0007', "leader: must be http"),
        ('id = "AAEC', 'id = "AAE', "id: "),
        ('collector_hpke_config = "', 'collector_hpke_config = "B', "collector_hpke_config"),
        ('type = "Prio3Histogram"', 'type = "Prio4"', "type"),
        ("length = 4", "length = 0", "length"),
        ("length = 4", "width = 4", "width"),
        ("length = 4", "length = 4.5", "length"),
        ('"None"', '"none"', "mechanism"),
        ("[vdaf]", "[vdaf", "not TOML"),
        ("version = 1", f"version = {'1' * 5000}", "not TOML"),
        ("version = 1", f"version = {'[' * 20_000}", "not TOML"),
        ("[privacy]", "[private]", "privacy: missing; there is private"),
        (
            "min_batch_size = 3",
            "min_batchsize = 3",
            "missing; there is min_batchsize",
        ),
        ('"Prio3Histogram"', '"histogram"', "not 'histogram'; did you mean Prio3Histogram\\?"),
        ("length = 4", "lenght = 4", "no parameter lenght; did you mean length\\?"),
        ('"None"', '"none"', "mechanism must be .* not 'none'; did you mean None\\?"),
        (
            "mechanism = ",
            "mechanismus = ",
            "DiscreteGaussian; there is mechanismus",
        ),
    ],
)
def test_a_file_with_a_fault_is_refused_and_the_fault_named(old: str, new: str, named: str) -> None:
    text = task_text()
    assert old in text
    with pytest.raises(ParameterError, match=named):
        task_from_toml(text.replace(old, new, 1))


@pytest.mark.parametrize("epsilon", ["0", "-1", "1/0", "nan", "inf", "", "1/-2", "0x10"])
def test_an_epsilon_that_is_not_a_positive_rational_is_refused(epsilon: str) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        make_task(privacy={**LAPLACE, "epsilon": epsilon})


def test_a_task_file_is_read_up_to_a_mebibyte_and_no_further() -> None:
    text = task_text()
    longest = text + "#" * (2**20 - len(text))
    assert task_from_toml(longest) == task_from_toml(text)
    with pytest.raises(ParameterError, match="at most 1,048,576 characters, not 1,048,577"):
        task_from_toml(longest + "#")


def test_a_bare_float_epsilon_is_refused() -> None:
    text = task_text(privacy=LAPLACE).replace('epsilon = "1/2"', "epsilon = 0.1")
    with pytest.raises(ParameterError, match="epsilon must be written as text"):
        task_from_toml(text)


@pytest.mark.parametrize("duration", [0, 2**64 - 1])
def test_an_interval_that_is_empty_or_never_ends_is_refused(duration: int) -> None:
    with pytest.raises(ParameterError, match="interval"):
        make_task(interval={"start": 5, "duration": duration})


def test_a_task_whose_sums_could_wrap_is_refused() -> None:
    field64 = {"type": "Prio3Sum", "max_measurement": 2**40}
    make_task(field64, LAPLACE, max_reports=2**20)
    with pytest.raises(ParameterError, match="max_reports"):
        make_task(field64, LAPLACE, max_reports=2**24)
    with pytest.raises(ParameterError, match="max_reports"):
        make_task(field64, {**LAPLACE, "epsilon": "1/1000000"}, max_reports=2**20)
