"""Signed permits in JavaScript are those of Python and of RFC 9474."""

import json
from functools import partial
from pathlib import Path
from typing import Any

from aggregator.client import Outbox, PermitStore
from aggregator.client.held_permits import held
from aggregator.codec import decode, encode
from aggregator.entropy import SystemEntropy
from aggregator.issuer import Issuer, PrivateKeys
from aggregator.protocol.permit_requests import PermitRequest
from aggregator.protocol.permits import Permits
from aggregator.protocol.signed_permits import signed_text
from aggregator.protocol.task_file import issuer_keys_to_table, task_for_clients, tasks_to_json
from tests.kat.test_blind_signing import VECTOR
from tests.kat.test_browser_survey import texts_of
from tests.support.clock import ManualClock
from tests.support.entropy import ScriptedEntropy
from tests.support.node import run_tests
from tests.support.pair import NOW
from tests.support.permitted import WINDOW_SECONDS
from tests.support.signed import (
    WINDOWS,
    KeptAnswers,
    issuer_keys,
    private_keys,
    signed_task,
    window_of,
)
from tests.support.surveys import VISITS, department
from tests.support.texts import WORD, asked_in

TASK = signed_task()
WINDOW = window_of(TASK)


def ours() -> list[dict[str, Any]]:
    """Return ids of signed permits, over the byte of their window, and what is signed of them."""
    domain, found = bytes(range(32)), []
    permits = Permits(domain, bytes(32))
    for number, window in enumerate((0, 21, 255, 256, 2**40 + 3)):
        opening = bytes([number] * 16)
        report_id = permits.report_id(opening, window)
        found.append(
            {
                "domain": domain.hex(),
                "opening": opening.hex(),
                "window": window,
                "report_id": report_id.hex(),
                "text": signed_text(domain, window, report_id).hex(),
            }
        )
    return found


def asked_and_answered(drawn: list[bytes]) -> tuple[bytes, bytes, dict[str, str]]:
    """Return what Python asks with these draws, its answer, and the first permit's report."""
    clock, outbox = ManualClock(NOW), Outbox(None)
    keys = PrivateKeys(issuer_keys(WINDOW), private_keys())
    issuer = Issuer(keys, [TASK], KeptAnswers(), clock=clock)
    exchanged = list[bytes]()

    def fetch(body: bytes) -> bytes:
        answer = issuer.issue("ada", body)
        exchanged[:] = [body, answer]
        return answer

    store = PermitStore(outbox, [TASK], clock=clock, entropy=ScriptedEntropy(b"".join(drawn)))
    assert store.refresh(fetch) == WINDOWS
    [request, answer] = exchanged
    place = decode(PermitRequest, request).wanted[0][0]
    assert TASK.permits is not None
    permit = outbox.within(partial(held, holder="", place=place))
    assert permit is not None
    outbox.close()
    report = {
        "id": TASK.permits.report_id(permit.opening, WINDOW).hex(),
        "signature": permit.signature.hex(),
    }
    return request, answer, report


def test_permits_are_blinded_asked_unblinded_and_shown_as_in_python(tmp_path: Path) -> None:
    entropy = SystemEntropy()
    # The opening, the salt, and a factor that is surely below the modulus, of each window.
    drawn = [
        each
        for _ in range(WINDOWS)
        for each in (entropy.bytes(16), entropy.bytes(48), b"\x00" + entropy.bytes(255))
    ]
    request, answer, report = asked_and_answered(drawn)
    asked = asked_in(
        VISITS.replace("windows = 52", "windows = 3").replace(
            "[budget]", 'answers = "by application"\n[budget]'
        )
        + department()
        + WORD
    )
    assert asked.task is not None
    assert asked.task.issuer_keys is not None
    n, inverse = int(VECTOR["n"], 16), int(VECTOR["inv"], 16)
    given = {
        "rfc": VECTOR | {"factor": pow(inverse, -1, n).to_bytes(512, "big").hex()},
        "ours": ours(),
        "task": task_for_clients(TASK),
        "keys": issuer_keys_to_table(issuer_keys(WINDOW)),
        "drawn": [each.hex() for each in drawn],
        "now": 1000 * NOW,
        "later": 1000 * WINDOW_SECONDS,
        "answers": {request.hex(): answer.hex()},
        "report": report,
        "survey": json.loads(tasks_to_json([asked.task])),
        "survey_keys": issuer_keys_to_table(asked.task.issuer_keys),
        "texts": texts_of(asked),
    }
    given["survey_now"] = 1000 * (asked.first.opens + 60)
    (tmp_path / "vectors.json").write_text(json.dumps(given))
    assert encode(decode(PermitRequest, request)) == request
    run_tests("signed.mjs", SIGNED_VECTORS=str(tmp_path / "vectors.json"))
