"""The folder of an audit of a pair, and what a share says that lacks or doubles a report."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from aggregator.cli.service.task_making import Setting, make_task, write_files
from aggregator.cli.steward.audit_pair import _Wanted
from aggregator.cli.steward.pair_runs import LARGEST_UPLOAD, STATE, PairAudit, Window, releases_of
from aggregator.dap.hpke import generate_keypair
from aggregator.dap.messages import CollectionJobReq, CollectionJobResp, TimeIntervalQuery
from aggregator.dap.profile import Role
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.release import add_noise
from aggregator.entropy import Entropy, SystemEntropy
from aggregator.errors import ParameterError
from aggregator.protocol import collection
from aggregator.protocol.collection import release
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml, task_to_toml
from aggregator.steward.audit.fault import FaultKind
from aggregator.steward.audit.split_noise import audit_by_scale, scales_of
from aggregator.vdaf.circuits import Circuit
from aggregator.vdaf.instances import TYPES, VdafType
from field import Vector, lift, project
from tests.support.entropy import SeededEntropy

KEYPAIR = generate_keypair(0, SystemEntropy())
LENGTH, REPORTS, NOW = 40, 5, 1_000_000


@pytest.fixture
def audit(tmp_path: Path) -> PairAudit:
    return audit_of({"type": "Prio3Histogram", "length": LENGTH}, tmp_path)


def audit_of(vdaf: Mapping[str, Setting], tmp_path: Path, **privacy: Setting) -> PairAudit:
    task = make_task(
        KEYPAIR.config,
        vdaf,
        {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1", **privacy},
        leader="https://leader.invalid/",
        helper="https://helper.invalid/",
        time_precision=60,
        min_batch_size=2,
        max_reports=1000,
        task_info="audit",
    )
    write_files(task, tmp_path / "audit")
    return PairAudit.open(tmp_path / "audit")


def collected(
    audit: PairAudit,
    window: Window,
    leader: list[int],
    helper: list[int],
    entropy: SeededEntropy | None = None,
) -> None:
    """Let a window be collected, each aggregator having added up these reports."""
    request, entropy = (
        CollectionJobReq(TimeIntervalQuery(window.interval)),
        entropy or SeededEntropy(1),
    )
    sealed = [
        release(
            audit.task,
            role,
            sum_of(audit, out_shares, rows),
            request,
            entropy,
        )
        for role, out_shares, rows in zip(
            (Role.LEADER, Role.HELPER), audit._out_shares(window), (leader, helper), strict=True
        )
    ]
    response = CollectionJobResp(len(leader), window.interval, sealed[0], sealed[1])
    window.released = audit._open(window, KEYPAIR, response)
    audit.save()


def sum_of(audit: PairAudit, out_shares: Vector, rows: list[int]) -> Vector:
    prio3 = audit.task.prio3
    return prio3.agg_update(prio3.agg_init(), out_shares[rows])


def test_what_is_left_of_shares_and_result_is_the_noise(audit: PairAudit) -> None:
    for window in audit.begin(2, REPORTS, NOW):
        collected(audit, window, [*range(REPORTS)], [*range(REPORTS)])
    found = releases_of(audit.audits[0])
    assert found.mistakes == ()
    assert found.counted == found.uploaded == (REPORTS, REPORTS)
    assert np.array_equal(found.leader + found.helper, found.total)
    assert 0 < np.abs(found.leader).max() < 100
    assert 0 < np.abs(found.helper).max() < 100


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_a_task_of_any_type_is_audited_with_reports_of_known_truth(
    kind: VdafType, tmp_path: Path
) -> None:
    least = {
        each.name: max(2, each.least) if isinstance(each.least, int) else each.least
        for each in kind.parameters
        if each.least is not None
    }
    audit = audit_of({"type": kind.name, **least}, tmp_path)
    (window,) = audit.begin(1, REPORTS, NOW)
    collected(audit, window, [*range(REPORTS)], [*range(REPORTS)])
    found = releases_of([window])
    assert found.mistakes == ()
    assert found.leader.shape == (1, audit.task.prio3.output_len)
    assert np.abs(found.leader).max() < 1000


def test_an_audit_is_made_like_a_task_with_its_type_and_all_of_its_noise(tmp_path: Path) -> None:
    mechanism: Mapping[str, Setting] = {
        "mechanism": "TruncatedGeometric",
        "epsilon": "1/2",
        "delta": "1/1000000",
        "max_reports_per_person": 2,
    }
    meant = make_task(
        KEYPAIR.config,
        {"type": "Prio3Histogram", "length": 12},
        {**mechanism, "max_releases": 4, "population": "staff", "private_threshold": "2k"},
        leader="https://leader.invalid/",
        helper="https://helper.invalid/",
        time_precision=60,
        min_batch_size=100,
        max_reports=1000,
        task_info="a task to come",
    )
    file = tmp_path / "tasks.toml"
    file.write_text(task_to_toml(meant))
    urls = "https://leader.invalid/", "https://helper.invalid/"
    wanted = _Wanted(*urls, file, None, None, None, None, None, None)
    made = wanted.task(KEYPAIR.config)
    assert made.prio3.circuit == meant.prio3.circuit
    assert made.policy.mechanism == meant.policy.mechanism
    assert (made.policy.max_releases, made.policy.population) == (None, "")
    assert made.policy.thresholds is None
    wanted.check(made)
    other = make_task_like(meant, length=13)
    with pytest.raises(ParameterError, match="task: the task in the folder has another type"):
        wanted.check(other)
    with pytest.raises(ParameterError, match="length: is that of the task which --task names"):
        dataclasses.replace(wanted, length=12).task(KEYPAIR.config)


def test_an_audit_of_sections_has_the_noise_of_each_of_them(tmp_path: Path) -> None:
    file = tmp_path / "split.toml"
    meant = task_of_sections(shares="1/3 2/3")
    file.write_text(task_to_toml(meant))
    urls = "https://leader.invalid/", "https://helper.invalid/"
    wanted = _Wanted(*urls, file, None, None, None, None, None, None)
    made = wanted.task(KEYPAIR.config)
    assert made.prio3.circuit == meant.prio3.circuit
    assert made.policy.mechanism == meant.policy.mechanism
    wanted.check(made)
    other = dataclasses.replace(wanted, mechanism="PureDpDiscreteLaplace", epsilon="1")
    with pytest.raises(ParameterError, match="mechanism, epsilon, privacy: the task in the folder"):
        other.check(made)


@pytest.mark.parametrize(
    ("silent", "scale"),
    [(None, None), (slice(7, 9), (2,)), (slice(-4, None), (0, 1, 3))],
    ids=["right", "in one section", "on the last cells"],
)
def test_a_helper_that_adds_noise_to_some_sections_only_is_found_in_its_releases(
    silent: slice | None,
    scale: tuple[int, ...] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    vdaf = {"type": "Prio3Sections", "sections": "onehot:3 onehot:4 given:0,2,100 table:0,1"}
    audit = audit_of(vdaf, tmp_path, shares="2x1/5 2/5 1/5", epsilon="1/2")
    releases = 0

    def faulty(share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy) -> Vector:
        nonlocal releases
        releases += 1
        draws = lift(add_noise(share, mechanism, circuit, entropy) - share)
        if silent is not None and releases % 2 == 0:  # the helper's follows the leader's
            draws[silent] = [0] * len(draws[silent])
        return share + project(share.field, draws)

    monkeypatch.setattr(collection, "add_noise", faulty)
    entropy = SeededEntropy(7)
    windows = audit.begin(4, REPORTS, NOW)
    for window in windows:
        collected(audit, window, [*range(REPORTS)], [*range(REPORTS)], entropy)
    scales = scales_of(audit.task.policy.mechanism, audit.task.prio3.circuit)
    found = audit_by_scale(releases_of(windows), scales, 1e-6)
    faults = [(each.scale.sections, fault) for each in found for fault in each.faults]
    if scale is None:
        assert faults == []
        assert not any(check.is_refused for each in found for check in each.checks)
    else:
        assert [(sections, fault.party, fault.kind) for sections, fault in faults] == [
            (scale, "helper", FaultKind.NO_NOISE)
        ]


def task_of_sections(**privacy: Setting) -> Task:
    return make_task(
        KEYPAIR.config,
        {"type": "Prio3Sections", "sections": "onehot:3 number:100"},
        {"mechanism": "PureDpDiscreteLaplace", "epsilon": "1", **privacy},
        leader="https://leader.invalid/",
        helper="https://helper.invalid/",
        time_precision=60,
        min_batch_size=100,
        max_reports=1000,
        task_info="a task to come",
    )


def make_task_like(task: Task, length: int) -> Task:
    text = task_to_toml(task).replace("length = 12", f"length = {length}")
    return task_from_toml(text)


@pytest.mark.parametrize(
    ("rows", "text"),
    [([0, 1, 3, 4], "report 3 of unit 16665 is not at all in the helper's share"),
     ([0, 0, 1, 2, 3, 4], "report 1 of unit 16665 is 2 times in the helper's share")],
    ids=["lost", "doubled"],
)  # fmt: skip
def test_a_report_lost_or_doubled_by_one_aggregator_is_told_by_its_number(
    audit: PairAudit, rows: list[int], text: str
) -> None:
    (window,) = audit.begin(1, REPORTS, NOW)
    collected(audit, window, [*range(REPORTS)], rows)
    found = releases_of([window])
    assert [(each.party, each.text) for each in found.mistakes] == [("helper", text)]
    assert np.abs(found.helper).max() < 100


def test_what_was_collected_survives_reopening_the_folder(audit: PairAudit) -> None:
    first, second = audit.begin(2, REPORTS, NOW)
    collected(audit, first, [*range(REPORTS)], [0, 1])
    again = PairAudit.open(audit.folder)
    assert again.audits == audit.audits
    # The audit under way goes on, whatever the options and the time.
    assert again.begin(7, REPORTS, 2 * NOW) == [first, second]
    assert len(again.begin(7, REPORTS, 2 * NOW, anew=True)) == 7


def test_the_last_audit_that_ended_can_be_looked_at_again(audit: PairAudit) -> None:
    with pytest.raises(ParameterError, match="no audit in the folder has ended"):
        audit.last()
    (window,) = audit.begin(1, REPORTS, NOW)
    collected(audit, window, [0, 1], [0, 1])
    audit.begin(1, REPORTS, NOW)
    assert PairAudit.open(audit.folder).last() == [window]


def test_a_new_audit_takes_units_that_no_audit_had(audit: PairAudit) -> None:
    for window in audit.begin(3, REPORTS, NOW):
        collected(audit, window, [0, 1], [0, 1])
    newer = audit.begin(3, REPORTS, NOW + 60)
    assert [window.unit for window in audit.audits[0]] == [16663, 16664, 16665]
    assert [window.unit for window in newer] == [16661, 16662, 16666]
    assert len({window.seed for each in audit.audits for window in each}) == 6


@pytest.mark.parametrize(
    ("reports", "message"),
    [(1, "reports: must be from 2 to 1000"), (1001, "reports: must be from 2 to 1000")],
)
def test_batches_that_the_task_does_not_allow_are_refused(
    audit: PairAudit, reports: int, message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        audit.begin(2, reports, NOW)
    assert not (audit.folder / STATE).exists()


def test_more_reports_than_one_request_takes_are_refused(
    audit: PairAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = audit.task.prio3.input_share_size(0)
    assert 1000 * size < LARGEST_UPLOAD
    monkeypatch.setattr("aggregator.cli.steward.pair_runs.LARGEST_UPLOAD", 3 * size)
    with pytest.raises(ParameterError, match="reports: 3 of this length go in one request, not 5"):
        audit.begin(2, REPORTS, NOW)


@pytest.mark.parametrize("text", ["", "[]", json.dumps({"version": 2, "audits": []})])
def test_a_file_that_is_not_the_state_of_an_audit_is_refused(audit: PairAudit, text: str) -> None:
    (audit.folder / STATE).write_text(text)
    with pytest.raises(ParameterError, match="not version 1 of an audit's state"):
        PairAudit.open(audit.folder)


def test_the_folder_of_an_audit_shows_no_token(audit: PairAudit) -> None:
    assert audit.token not in repr(audit)
    assert len(audit.token) > 20
