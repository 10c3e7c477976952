"""Exchanges with other implementations, as they went over the wire.

A file of `tests/interop/data` has one peer at one commit. Each of its runs is one task from its
reports to its result: who played which role, the task, the keys, and the bodies of requests and
answers in hexadecimal. Keys were drawn for the run.
"""

import dataclasses
import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from aggregator.codec import decode
from aggregator.dap.hpke import HpkeConfig, HpkeKeypair
from aggregator.dap.messages import (
    AggregationJobResp,
    CollectionJobReq,
    Report,
    UploadRequest,
    VerifyRespReject,
)
from aggregator.protocol.aggregation import VerificationKey
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_table

FOLDER = Path(__file__).parents[1] / "interop" / "data"
OURS = "ours"


@dataclasses.dataclass(frozen=True)
class Exchange:
    """The bodies of a request and of its answer."""

    request: bytes
    answer: bytes


@dataclasses.dataclass(frozen=True)
class Run:
    """One task's exchanges.

    Attributes:
        peer: Who was not us, and at which commit.
        facts: The run as the file has it.
    """

    peer: str
    facts: Mapping[str, object]

    def __str__(self) -> str:
        """Name the run: the roles that are not ours, the type and the batch mode."""
        theirs = [role for role, who in self.roles.items() if who != OURS]
        vdaf, mode = self.task.prio3.circuit.name, self.task.configuration.batch_mode.name
        how = "-that-defers" if any("defers" in who for who in self.roles.values()) else ""
        return f"{self.peer}-as-{'-'.join(theirs)}{how}-{vdaf}-{mode.lower()}"

    @property
    def roles(self) -> Mapping[str, str]:
        """Who played each role."""
        return dict(_table(self.facts["roles"]))

    @cached_property
    def task(self) -> Task:
        """The task as our own file of it says."""
        return task_from_table(dict(_table(self.facts["task"])))

    @property
    def verification_key(self) -> VerificationKey:
        """The task's verification key."""
        return VerificationKey(0, _bytes(self.facts["verify_key"]))

    @property
    def time(self) -> int:
        """When it was recorded, in seconds."""
        time = self.facts["time"]
        assert isinstance(time, int)
        return time

    def keypairs(self, role: str) -> dict[int, HpkeKeypair]:
        """Return a party's key pairs by configuration id; none if they are not known."""
        found = {}
        for each in _list(_table(self.facts["keys"]).get(role, [])):
            config = decode(HpkeConfig, _bytes(_table(each)["config"]))
            found[config.id] = HpkeKeypair(config, _bytes(_table(each)["private_key"]))
        return found

    @property
    def uploads(self) -> list[bytes]:
        """The bodies of all uploads."""
        return [_bytes(each) for each in _list(self.facts["uploads"])]

    @property
    def reports(self) -> dict[bytes, Report]:
        """All reports, by their ids."""
        uploaded = [decode(UploadRequest, body) for body in self.uploads]
        return {
            report.report_metadata.report_id.value: report
            for request in uploaded
            for report in request.reports
        }

    @property
    def jobs(self) -> list[Exchange]:
        """The aggregation jobs, in the draft's framing."""
        framing = self.task.profile.framing
        return [
            Exchange(framing.read_request(job.request), framing.read_answer(job.answer))
            for job in self.wire_jobs
        ]

    @property
    def wire_jobs(self) -> list[Exchange]:
        """The aggregation jobs as they were sent."""
        return [_exchange(each) for each in _list(self.facts["aggregation"])]

    @property
    def aggregate_share(self) -> Exchange:
        """The leader's request for the helper's share of the batch."""
        return _exchange(self.facts["aggregate_share"])

    @property
    def collection(self) -> Exchange:
        """The collector's request, and the result."""
        return _exchange(self.facts["collection"])

    @property
    def query(self) -> CollectionJobReq:
        """What was collected."""
        return decode(CollectionJobReq, self.collection.request)

    @property
    def values(self) -> list[int]:
        """The result as the run's collector gave it."""
        return [value for value in _list(self.facts["values"]) if isinstance(value, int)]


@dataclasses.dataclass(frozen=True)
class Refusal:
    """A job of a good report and one that is bad in some way, or one that is bad itself.

    Attributes:
        run: The task, the helper's keys and the time.
        name: What is wrong.
        request: The job, in the draft's framing.
        verdict: What the peer said: of each report an error or None; or the type of a problem.
    """

    run: Run
    name: str
    request: bytes
    verdict: tuple[int | None, ...] | str

    def __str__(self) -> str:
        """Name the peer and what is wrong."""
        return f"{self.run.peer}-{self.name}"


def refusals() -> list[Refusal]:
    """Return what was sent to other helpers to be refused."""
    found = []
    for path in sorted(FOLDER.glob("*-refusals.json")):
        document = json.loads(path.read_text())
        run = Run(_peer(document), document)
        framing = run.task.profile.framing
        for each in document["runs"]:
            request, answer = _bytes(each["request"]), _bytes(each["answer"])
            if each["status"] < 300:
                response = decode(AggregationJobResp, framing.read_answer(answer))
                verdict: tuple[int | None, ...] | str = verdicts(response)
            else:
                verdict = json.loads(answer)["type"].rsplit(":", 1)[-1]
            found.append(Refusal(run, each["name"], framing.read_request(request), verdict))
    return found


def verdicts(response: AggregationJobResp) -> tuple[int | None, ...]:
    """Return the error of each report of an answer, or None."""
    return tuple(
        each.report_error if isinstance(each, VerifyRespReject) else None
        for each in response.verify_resps
    )


def runs() -> list[Run]:
    """Return all recorded runs."""
    return [
        Run(_peer(document), _table(each))
        for path in sorted(FOLDER.glob("*.json"))
        if "roles" in (document := json.loads(path.read_text()))["runs"][0]
        for each in document["runs"]
    ]


def _peer(document: Mapping[str, object]) -> str:
    return f"{document['peer']}-{str(document['commit'])[:8]}"


def _exchange(facts: object) -> Exchange:
    table = _table(facts)
    return Exchange(_bytes(table["request"]), _bytes(table["answer"]))


def _table(value: object) -> Mapping[str, object]:
    assert isinstance(value, dict)
    return value


def _list(value: object) -> list[object]:
    assert isinstance(value, list)
    return value


def _bytes(value: object) -> bytes:
    assert isinstance(value, str)
    return bytes.fromhex(value)
