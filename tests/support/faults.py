"""What a peer may answer that means ill, is broken, or is only unlike ours; each is a fault."""

import dataclasses
import functools
import gzip
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from aggregator.codec import U64_MAX, decode, encode
from aggregator.dap.messages import (
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobResp,
    VerifyRespReject,
)
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from aggregator.dap.resources import media_type
from aggregator.dap.times import Interval
from tests.support.faulty_peer import Call, Fault

PROBLEM = "application/problem+json"
FOREVER = 10**6
MEBIBYTE = bytes(2**20)


@functools.cache
def _bomb() -> bytes:
    """Compress 256 MiB of zeros."""
    return gzip.compress(bytes(2**28), 9)


def once(fault: Fault) -> Callable[[], Fault]:
    """Return what makes a peer that has a fault at its first call, and then is well."""

    def make() -> Fault:
        calls = itertools.count()

        def answer(call: Call) -> None:
            if next(calls):
                call.pass_on()
            else:
                fault(call)

        return answer

    return make


def always(fault: Fault) -> Callable[[], Fault]:
    """Return what makes a peer that is as it is."""
    return lambda: fault


def status(code: int, **headers: str) -> Fault:
    """Return the fault of a status that we did not expect."""
    named = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return lambda call: call.answer(code, b"", named)


def garbled(call: Call) -> None:
    """Let one byte of the answer be another."""
    real = call.ask_behind()
    body = bytearray(real.content)
    body[len(body) // 2] ^= 0x80
    kept = [(name, real.headers[name]) for name in ("content-type", "location")]
    call.answer(real.status_code, bytes(body), kept)


def problem(call: Call) -> None:
    """Refuse with words that no log, store or terminal can take."""
    document = {"type": "urn:\ud800", "title": "\x1b[31m\0", "detail": "\udfff" * 2000}
    call.answer(400, json.dumps(document).encode(), [("content-type", PROBLEM)])


def endless(call: Call) -> None:
    """Answer without end."""
    head = b"HTTP/1.1 201 Created\r\ncontent-type: application/octet-stream\r\n\r\n"
    call.write(itertools.chain([head], itertools.repeat(MEBIBYTE, FOREVER)))


def endless_headers(call: Call) -> None:
    """Answer with headers without end."""
    more = (b"x-%d: %s\r\n" % (each, b"x" * 8000) for each in range(FOREVER))
    call.write(itertools.chain([b"HTTP/1.1 201 Created\r\n"], more))


def bomb(call: Call) -> None:
    """Answer little that unpacks to much."""
    call.answer(201, _bomb(), [("content-encoding", "gzip"), ("content-type", PROBLEM)])


def cut_short(call: Call) -> None:
    """Promise more than comes."""
    real = call.ask_behind()
    head = b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\n\r\n" % len(real.content)
    call.write([head, real.content[:-1]])


def problem_without_end(call: Call) -> None:
    """Refuse with a problem document that does not end."""
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n\r\n{"
    call.write(itertools.chain([head], itertools.repeat(MEBIBYTE, FOREVER)))


def deep_problem(call: Call) -> None:
    """Refuse with a problem document of lists in lists."""
    call.answer(400, b'{"type":' + b"[" * 60_000, [("content-type", PROBLEM)])


def garbled_result() -> Fault:
    """Return the fault of a leader whose first result is garbled on its way."""
    results = itertools.count()

    def change(real: CollectionJobResp) -> CollectionJobResp:
        sealed = real.helper_encrypted_agg_share
        garbled = dataclasses.replace(sealed, payload=bytes(len(sealed.payload)))
        is_first = next(results) == 0
        return dataclasses.replace(real, helper_encrypted_agg_share=garbled) if is_first else real

    return lie(change)()


def long_location(call: Call) -> None:
    """Name the resource by more than anybody can mean."""
    call.answer(201, b"", [("location", "/" + "a/" * 10_000)])


def lie(change: Callable[[CollectionJobResp], CollectionJobResp]) -> Callable[[], Fault]:
    """Return what makes a leader that says of each of its results what is not."""

    def answer(call: Call) -> None:
        real = call.ask_behind()
        kept = [(n, real.headers[n]) for n in ("content-type", "location") if n in real.headers]
        body = real.content
        if real.is_success and body:
            body = encode(change(decode(CollectionJobResp, body)))
        call.answer(real.status_code, body, kept)

    return always(answer)


def too_early(call: Call) -> None:
    """Have a clock by which every report is of the future."""
    job = decode(AggregationJobInitReq, call.body)
    rejected = [
        VerifyRespReject(
            each.report_share.report_metadata.report_id, DAP_18.code(ReportError.REPORT_TOO_EARLY)
        )
        for each in job.verify_inits
    ]
    body = encode(AggregationJobResp(tuple(rejected)))
    location = call.path + "/" + "A" * 22
    headers = [("content-type", media_type(AggregationJobResp.message)), ("location", location)]
    call.answer(201, body, headers)


def asynchronous() -> Fault:
    """Return the fault of a peer that answers only when it is asked again."""
    polls = itertools.count()

    def answer(call: Call) -> None:
        if call.method == "POST":
            location = call.ask_behind().headers["location"]
            call.answer(201, b"", [("location", location), ("retry-after", "1")])
        elif call.method == "GET" and next(polls) == 0:
            call.answer(202, b"", [("retry-after", "1")])
        else:
            call.pass_on()

    return answer


def forgetful() -> Fault:
    """Return the fault of a peer that takes a job and at first forgets it."""
    posts, polls = itertools.count(), itertools.count()
    document = {"type": "urn:ietf:params:ppm:dap:error:unrecognizedAggregationJob"}

    def answer(call: Call) -> None:
        if call.method == "POST" and next(posts) == 0:
            location = call.path + "/" + "A" * 22
            call.answer(201, b"", [("location", location), ("retry-after", "1")])
        elif call.method == "GET" and next(polls) == 0:
            call.answer(404, json.dumps(document).encode(), [("content-type", PROBLEM)])
        else:
            call.pass_on()

    return answer


class Torn:
    """The fault of a network that is slow and tears, of a proxy to services of this machine.

    Some requests do not arrive, and some are answered and half of the answer is through. Everything
    comes late and in pieces.

    Args:
        choose: Says what becomes of a request.
        ports: Of the services to which requests are torn.

    Attributes:
        fates: How many requests were lost, were not answered, and came through.
    """

    LOST, UNANSWERED = 0.1, 0.25
    """Where the chances end that a request does not arrive, or that its answer does not."""
    LATE_SECONDS, PIECE_SECONDS, PIECE = 0.05, 0.02, 8192

    def __init__(self, choose: random.Random, ports: Collection[int]) -> None:
        self.fates = Counter[str]()
        self._choose, self._ports = choose, ports
        self._lock = threading.Lock()

    def __call__(self, call: Call) -> None:
        """Answer late, in pieces, by half or not at all."""
        parts = urlsplit(call.path)
        if parts.hostname != "127.0.0.1":
            call.write(())  # what a browser asks its maker for; a page asks nobody else
            return
        fate = self._fate(parts.port)
        call.wait(self.LATE_SECONDS)
        answer = b"" if fate == "lost" else call.as_bytes(call.ask_behind())
        if fate == "unanswered":
            answer = answer[: len(answer) // 2]
        for start in range(0, len(answer), self.PIECE):
            call.write([answer[start : start + self.PIECE]])
            call.wait(self.PIECE_SECONDS)
        call.write(())

    def _fate(self, port: int | None) -> str:
        with self._lock:
            chance = self._choose.random() if port in self._ports else 1.0
            ends = {"lost": self.LOST, "unanswered": self.UNANSWERED, "through": 2.0}
            fate = next(fate for fate, end in ends.items() if chance < end)
            self.fates[fate] += 1
            return fate


FAULTS: Mapping[str, Callable[[], Fault]] = {
    "silent": once(lambda call: call.wait(60)),
    "garbled": once(garbled),
    "bomb": once(bomb),
    "endless": once(endless),
    "endless-headers": once(endless_headers),
    "cut-short": once(cut_short),
    "no-http": once(lambda call: call.write([b"\x00\xff what?\r\n\r\n"])),
    "problem": once(problem),
    "early": once(too_early),
    "elsewhere": once(status(201, location="https://elsewhere.example/")),
    "no-location": once(status(201, location="/\x01", retry_after="1")),
    "redirect": once(status(302, location="https://elsewhere.example/")),
    "empty": once(status(204)),
    "missing": once(status(404)),
    "teapot": once(status(418)),
    "failed": once(status(500)),
    "wrong-date": once(
        status(503, retry_after=f"Mon, 01 Jan {'9' * 20} 00:00:00 GMT", date="never")
    ),
    "asynchronous": asynchronous,
    "forgetful": forgetful,
    "well": always(lambda call: call.pass_on()),
}
"""Makes each fault by its name; all of them end, so that every report can be counted."""

_HELPERS_ONLY = {"early", "asynchronous", "forgetful", "garbled"}

LEADER_FAULTS: Mapping[str, Callable[[], Fault]] = {
    **{name: FAULTS[name] for name in FAULTS.keys() - _HELPERS_ONLY - {"silent"}},
    "garbled-result": garbled_result,
    "problem-without-end": once(problem_without_end),
    "deep-problem": once(deep_problem),
    "long-location": once(long_location),
}
"""Makes each fault of a leader with its collector; all of them end, and soon."""

LEADER_LIES: Mapping[str, Callable[[], Fault]] = {
    "counts-none": lie(lambda real: dataclasses.replace(real, report_count=0)),
    "counts-too-many": lie(lambda real: dataclasses.replace(real, report_count=U64_MAX)),
    "before-the-query": lie(lambda real: dataclasses.replace(real, interval=Interval.of(0, 1))),
    "all-time": lie(lambda real: dataclasses.replace(real, interval=Interval.of(0, U64_MAX))),
    "one-share-twice": lie(
        lambda real: dataclasses.replace(
            real, helper_encrypted_agg_share=real.leader_encrypted_agg_share
        )
    ),
}
"""Makes each leader whose results are none."""

SLOW_TO_END = {"early"}
"""Those after which a leader waits a minute."""
