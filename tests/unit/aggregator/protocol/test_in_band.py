"""What a configuration decides by itself, against other implementations of hash and derivation."""

import base64
import hashlib
import hmac

import pytest

from aggregator.codec import decode
from aggregator.dap.task import TaskConfiguration
from aggregator.protocol.agreements import verify_key_of
from aggregator.protocol.in_band import (
    HEADER,
    MOST_BYTES,
    configuration_in,
    headers_of,
    id_of,
    is_named_by_its_hash,
)
from tests.support.in_band import INIT, task_in_band
from tests.support.tasks import make_task

CONFIGURATION = bytes.fromhex(
    "00"  # task_info, empty, as only draft 19 allows
    "001768747470733a2f2f6c65616465722e6578616d706c652f"
    "001768747470733a2f2f68656c7065722e6578616d706c652f"
    "0000000000000005"  # time_precision
    "0000000000000014"  # min_batch_size
    "01"  # time_interval
    "0000"
    "00000004"  # Prio3Histogram
    "0008"
    "00000008"
    "00000003"
    "0000"
)
ID = "206b0b9dbb82029c076392866ceace6f9ccfabd5f7bba62cff4d1f2882051db8"
KEY = "c834d8493700152ba16df0c9b22cd47ebc1a84fd3ded8f1aa2ed5ee2a36750e3"


def test_the_id_and_the_key_are_those_that_other_libraries_compute() -> None:
    assert decode(TaskConfiguration, CONFIGURATION).time_precision == 5
    label = hashlib.sha256(b"dap-taskprov task id").digest()
    task_id = id_of(CONFIGURATION)
    assert task_id.value == hashlib.sha256(label + CONFIGURATION).digest()
    salt = hashlib.sha256(b"dap-taskprov").digest()
    # HKDF by its definition: an extraction, and an expansion to one block.
    extracted = hmac.digest(salt, INIT, "sha256")
    derived = hmac.digest(extracted, task_id.value + b"\x01", "sha256")
    assert verify_key_of(INIT, task_id) == derived
    assert (task_id.value.hex(), derived.hex()) == (ID, KEY)


def test_a_header_is_one_byte_sequence_with_the_configuration() -> None:
    task = task_in_band()
    assert is_named_by_its_hash(task)
    headers = headers_of(task)
    assert [*headers] == [HEADER.lower()]
    value = headers[HEADER.lower()]
    assert value == f":{base64.b64encode(task.configuration_bytes).decode()}:"
    assert configuration_in([value]) == task.configuration_bytes
    assert configuration_in([f"  {value};a=1;b "]) == task.configuration_bytes


def test_a_task_of_another_id_is_not_told_of() -> None:
    task = make_task()
    assert not is_named_by_its_hash(task)
    assert headers_of(task) == {}


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        ["::"],
        [":AAAA:", ":AAAA:"],
        [":AAAA:, :AAAA:"],
        ['"AAAA"'],
        ["AAAA"],
        ["?1"],
        [":AA-_:"],
        [":A:"],
        [":AAAA: x"],
        [f":{'A' * (MOST_BYTES * 2)}:"],
    ],
)
def test_what_is_no_byte_sequence_is_ignored(values: list[str]) -> None:
    assert configuration_in(values) is None
