import json

import pytest

from aggregator.client.vectors import client_vectors
from aggregator.codec import decode
from aggregator.dap.hpke import HpkeConfigList, HpkeKeypair, input_share_info, open_
from aggregator.dap.messages import PlaintextInputShare, UploadRequest
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.vdaf.circuits.measurements import Measurement
from tests.support.tasks import make_task

CASES: list[tuple[dict[str, str | int], Measurement]] = [
    ({"type": "Prio3Count"}, 1),
    ({"type": "Prio3Histogram", "length": 4}, 3),
]


@pytest.mark.parametrize(("vdaf", "measurement"), CASES, ids=["without blinds", "with blinds"])
def test_reports_of_the_vectors_open_with_their_keys_and_add_up(
    vdaf: dict[str, str | int], measurement: Measurement
) -> None:
    task = make_task(vdaf)
    file = json.loads(json.dumps(client_vectors(task, [measurement], 1_700_000_000)))
    [report] = decode(UploadRequest, bytes.fromhex(file["upload_request"])).reports
    [steps] = file["reports"]
    for role, sealed in (
        (Role.LEADER, report.leader_encrypted_input_share),
        (Role.HELPER, report.helper_encrypted_input_share),
    ):
        name = role.name.lower()
        keys = file["hpke"][name]
        [config] = decode(HpkeConfigList, bytes.fromhex(keys["hpke_config_list"])).configs
        keypair = HpkeKeypair(config, bytes.fromhex(keys["private_key"]))
        aad = bytes.fromhex(steps["input_share_aad"])
        opened = open_(keypair, input_share_info(task.profile.tag, role), aad, sealed)
        payload = decode(PlaintextInputShare, opened).payload
        assert payload.hex() == steps[f"{name}_input_share"]
        assert steps[f"{name}_seal"]["enc"] == sealed.enc.hex()
    # The steps on the way are parts of what comes out.
    shard = steps["shard"]
    blind = shard.get("leader_blind", "")
    share = shard["leader_measurement_share"] + shard["leader_proof_share"] + blind
    assert share == steps["leader_input_share"]
    blind = shard.get("helper_blind", "")
    assert shard["helper_seed"] + blind == steps["helper_input_share"]
    parts = shard.get("leader_joint_rand_part", "") + shard.get("helper_joint_rand_part", "")
    assert parts == steps["public_share"]


def test_the_vectors_of_a_task_are_the_same_each_time_and_those_of_another_differ() -> None:
    def of(**settings: str) -> object:
        return client_vectors(make_task(**settings), [1], 0)

    assert of() == of()
    assert of() != of(task_info="another")


def test_a_measurement_that_the_task_does_not_take_has_no_vectors() -> None:
    with pytest.raises(ParameterError, match="measurement 0"):
        client_vectors(make_task(), [4], 0)
