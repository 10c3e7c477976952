"""Every decoder of what another party sends: for any bytes, its own error or a value, no other end.

Each takes the bytes, and raises only where the product is wrong. Hypothesis, coverage-guided
fuzzing and the replay of its corpus all call the same.
"""

import asyncio
import dataclasses
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import httpx

from aggregator.codec import DecodeError, Message, Reader, decode, encode
from aggregator.dap.attribution import Attribution, asked_budget, min_dp_budget, privacy_budget
from aggregator.dap.auth import bearer_token
from aggregator.dap.dialect import WITH_LENGTHS
from aggregator.dap.hpke import (
    DecryptError,
    HpkeCiphertext,
    HpkeConfigList,
    generate_keypair,
    open_,
)
from aggregator.dap.ids import ReportId, TaskId, decode_base64url, encode_base64url
from aggregator.dap.messages import (
    CollectionJobReq,
    LeaderSelectedQuery,
    Report,
    ReportMetadata,
    UploadedReport,
    UploadRequest,
)
from aggregator.dap.messages.job_columns import read_job, write_job
from aggregator.dap.problems import InvalidExtension, MessageTooLarge
from aggregator.dap.profile import Role
from aggregator.dap.resources import media_type, message_of
from aggregator.dap.task import TaskConfiguration
from aggregator.dp.policy import decode_policy, encode_policy
from aggregator.dp.rationals import format_rational, parse_rational
from aggregator.errors import ParameterError, PeerError
from aggregator.protocol.answers_so_far import AnswersSoFar, WindowCount
from aggregator.protocol.permit_codes import code_of, secret_of
from aggregator.protocol.permit_lists import (
    Replacements,
    from_header,
    in_short,
    listed,
    read_lists,
    read_replacements,
    to_header,
    write_lists,
)
from aggregator.protocol.provisioning import provision, read_provisions
from aggregator.protocol.reports import report_sizes
from aggregator.protocol.task_file import (
    task_to_toml,
    tasks_from_toml,
    tasks_to_json,
    tasks_to_toml,
)
from aggregator.service.transport.http_answer import HttpAnswer
from aggregator.service.transport.peer import Peer
from aggregator.vdaf.outcomes import VerifyError
from aggregator.vdaf.ping_pong import MessageType
from aggregator.vdaf.ping_pong import decode as decode_ping_pong
from aggregator.vdaf.ping_pong import encode as encode_ping_pong
from tests.support.dap_messages import SAMPLES
from tests.support.entropy import SeededEntropy
from tests.support.tasks import ATTRIBUTION, LAPLACE, make_task

Decoder = Callable[[bytes], object]


@dataclasses.dataclass(frozen=True)
class Decoded:
    """A decoder, and bytes that it takes, from which fuzzing sets out.

    Attributes:
        check: Decodes; an exception that leaves it is a fault of the product.
        seeds: Well-formed examples.
    """

    check: Decoder
    seeds: Sequence[bytes]


TASK = make_task(privacy=LAPLACE, vdaf={"type": "Prio3Count"})
TASK_FILE = task_to_toml(TASK)
SIZES = report_sizes(TASK)
PAID = make_task({"type": "Prio3Count"}, LAPLACE, attribution=ATTRIBUTION, task_info="")
ALL_SIZES = (SIZES, report_sizes(PAID))
"""The sizes of reports without an extension, and of those that say what they may cost."""
KEYPAIR = generate_keypair(7, SeededEntropy(b"fuzzed"))
CIPHERTEXT = encode(HpkeCiphertext(7, KEYPAIR.config.public_key, bytes(40)))
ENDPOINT = "https://peer.example:8443/dap/"
PROBLEM = b"application/problem+json"
LOOP = asyncio.new_event_loop()


def message(kind: type[Message]) -> Decoder:
    """Return the decoder of a message, whose values each have one encoding."""

    def check(data: bytes) -> None:
        with suppress(DecodeError):
            assert encode(decode(kind, data)) == data

    return check


def uploaded_reports(data: bytes) -> None:
    """Read reports by their task's sizes, as the leader does, and compare with the messages."""
    for sizes in ALL_SIZES:
        reader, found = Reader(data), []
        with suppress(DecodeError):
            while reader.remaining:
                found.append(UploadedReport.read(reader, sizes))
        # Fields that nobody parses may be malformed; those that fit are reports.
        for each in found:
            if each.encoding is not None:
                (report,) = decode(UploadRequest, each.encoding).reports
                metadata = report.report_metadata
                assert (metadata.report_id, metadata.time) == (each.report_id, each.time)
                assert len(metadata.public_extensions) == (sizes is not SIZES)


def aggregation_job(data: bytes) -> None:
    """Read an aggregation job by its task's sizes, as the helper does."""
    for sizes in ALL_SIZES:
        with suppress(DecodeError, MessageTooLarge):
            job = read_job(data, sizes)
            if len(job.places) == len(job.ids) and job.messages.any(axis=1).all():
                head = job.verification_key_id, job.agg_param, job.extensions
                assert write_job(*head, job.shares, job.messages) == data


def attribution(data: bytes) -> None:
    """Read what a task says of attribution, and what a collection asks for."""
    with suppress(DecodeError, ParameterError):
        extensions = decode(TaskConfiguration, data).extensions
        said = Attribution.of(extensions)
        assert said is None or {*said.extensions} <= {*extensions}
    with suppress(DecodeError, InvalidExtension, ParameterError):
        extensions = decode(CollectionJobReq, data).extensions
        assert min_dp_budget(asked_budget(extensions))[0] in extensions


def framed_request(data: bytes) -> None:
    """Read an aggregation job as an older Janus writes it; each has one encoding."""
    with suppress(DecodeError):
        assert WITH_LENGTHS.request(WITH_LENGTHS.read_request(data)) == data


def framed_answer(data: bytes) -> None:
    """Read the answer to one, likewise."""
    with suppress(DecodeError):
        assert WITH_LENGTHS.answer(WITH_LENGTHS.read_answer(data)) == data


def ping_pong(data: bytes) -> None:
    """Read a ping-pong message of any type."""
    for kind in MessageType:
        content = decode_ping_pong(kind, data)
        if not isinstance(content, VerifyError):
            assert encode_ping_pong(kind, content) == data


def aggregate_share(data: bytes) -> None:
    """Read an aggregate share that was opened."""
    with suppress(ParameterError):
        assert TASK.prio3.encode_agg_share(TASK.prio3.decode_agg_share(data)) == data


def sealed(data: bytes) -> None:
    """Open a ciphertext that a stranger made."""
    with suppress(DecodeError, DecryptError):
        open_(KEYPAIR, b"info", b"aad", decode(HpkeCiphertext, data))
        raise AssertionError("a forged ciphertext opens")


def hpke_configs(data: bytes) -> None:
    """Choose one of a peer's HPKE configurations."""
    with suppress(DecodeError):
        decode(HpkeConfigList, data).preferred()


def privacy_policy(data: bytes) -> None:
    """Read a privacy policy."""
    with suppress(DecodeError):
        assert encode_policy(decode_policy(data)) == data


def permit_lists(data: bytes) -> None:
    """Read what whoever makes links hands to both aggregators."""
    with suppress(DecodeError):
        assert write_lists(read_lists(data)) == data
    with suppress(DecodeError):
        assert write_lists(read_replacements(data)) == data
    said = from_header(data.decode("latin-1"))
    assert from_header(to_header(said)) == said


def permit_code(data: bytes) -> None:
    """Read a code that somebody has typed."""
    with suppress(ParameterError):
        secret = secret_of(data.decode("latin-1"))
        assert secret_of(code_of(secret)) == secret


def rational(data: bytes) -> None:
    """Read an exact rational."""
    with suppress(ParameterError):
        value = parse_rational(data.decode("latin-1"), "epsilon")
        assert parse_rational(format_rational(value), "epsilon") == value


def base64url(data: bytes) -> None:
    """Read an identifier of a path."""
    text = data.decode("latin-1")
    with suppress(DecodeError):
        assert encode_base64url(decode_base64url(text)) == text
    with suppress(DecodeError):
        assert str(TaskId.parse(text)) == text


def content_type(data: bytes) -> None:
    """Read the message that a header declares."""
    message_of(data.decode("latin-1"))


def authorization(data: bytes) -> None:
    """Read the token that a header shows."""
    token = bearer_token(data.decode("latin-1"))
    assert token is None or token.isascii()


def task_file(data: bytes) -> None:
    """Read a task file, which one party makes and all others take."""
    with suppress(ParameterError):
        tasks = tasks_from_toml(data.decode("utf-8", "replace"))
        for write in (tasks_to_toml, tasks_to_json):
            assert tasks_from_toml(write(tasks)) == tasks


def service_file(data: bytes) -> None:
    """Read one party's file of a task, with its secrets."""
    text = data.decode("utf-8", "replace")
    for role in (Role.LEADER, Role.HELPER, Role.COLLECTOR):
        with suppress(ParameterError):
            read_provisions(text, role)


def is_text(reason: str) -> bool:
    """Return whether a log, a store and a terminal can take what a peer's words became."""
    acting = {"Cc", "Cs", "Zl", "Zp"}
    turning = {"LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI"}
    return not any(
        unicodedata.category(each) in acting or unicodedata.bidirectional(each) in turning
        for each in reason.replace("\n", " ")
    )


_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")


def peer_answer(data: bytes) -> None:
    """Read the answer of a peer: a line each of status, headers as they are, then the body."""
    status, _, rest = data.partition(b"\n")
    head, _, body = rest.partition(b"\n\n")
    lines = [line.partition(b":") for line in head.split(b"\n")]
    # Other names never come this far: h11 refuses them.
    headers = [
        (name if _TOKEN.fullmatch(name) else b"x", value.strip())
        for name, value in ((name.strip(), value) for name, _, value in lines)
    ]
    code = int(status) if status.isdigit() and len(status) == len(b"200") else 200

    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(code, headers=headers, stream=httpx.ByteStream(body))

    async def ask() -> None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
            reason = ""
            try:
                answered = await Peer(http, ENDPOINT, attempts=1).get("hpke_config", limit=100)
                answered.carried(HpkeConfigList.message)
            except PeerError as error:
                reason = str(error)
            else:
                assert len(answered.body) <= 100
                assert (answered.location or ENDPOINT).startswith("https://peer.example:8443/")
            assert is_text(reason)

    LOOP.run_until_complete(ask())


def http_answer(data: bytes) -> None:
    """Read an answer over HTTP/1.1 at once and byte by byte, until the connection ends."""

    def read(pieces: Sequence[bytes]) -> object:
        answer = HttpAnswer()
        try:
            for piece in pieces:
                if not answer.is_whole:
                    answer.feed(piece)
            if not answer.is_whole:
                answer.end()
        except httpx.RemoteProtocolError:
            return None
        assert answer.is_whole
        assert answer.has_head
        return answer.status, answer.headers, b"".join(answer.pieces)

    assert read([data]) == read([data[place : place + 1] for place in range(len(data))])


HTTP_ANSWERS = (
    b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: y\r\n\r\nok",
    b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nx: y\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nok",
    b"HTTP/1.0 404 Not Found\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
)

PEER_ANSWERS = (
    b"200\ncontent-type: application/ppm-dap;message=hpke-config-list\n\nconfig",
    b"201\nlocation: /tasks/x/aggregation_jobs/y\nretry-after: 5\n\n",
    b"201\nlocation: https://peer.example:8443/dap/tasks\n\n",
    b"503\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\ndate: Sun, 06 Nov 1994 08:49:37 GMT\n\n",
    b'400\ncontent-type: application/problem+json\n\n{"type":"about:blank","title":"no"}',
    b'403\ncontent-type: application/problem+json\n\n{"type":"'
    b'urn:ietf:params:ppm:dap:error:unsupportedExtension","detail":"\\ud800\\u001b[31m",'
    b'"taskid":"' + str(TASK.task_id).encode() + b'","unsupported_extensions":[1,2]}',
    b"200\ncontent-encoding: gzip\n\nx",
    b"302\nlocation: https://peer.example:8443/dap/elsewhere\n\n",
    b"302\nlocation: javascript:1\n\n",
)

POLICIES = (LAPLACE, {"mechanism": "None"}, {"mechanism": "PureDpDiscreteLaplace", "epsilon": "2"})


def _samples(kind: type[Message]) -> list[bytes]:
    return [encode(sample) for sample in SAMPLES if type(sample) is kind]


def _reports() -> list[bytes]:
    """Return a report of each of the sizes, which opens to nothing: no seed may take a kernel."""
    return [
        encode(
            Report(
                ReportMetadata(ReportId(bytes(16)), TASK.time(0), extensions),
                bytes(sizes.public_share),
                HpkeCiphertext(7, bytes(32), bytes(sizes.leader_payload)),
                HpkeCiphertext(7, bytes(32), bytes(sizes.helper_payload)),
            )
        )
        for sizes, extensions in zip(ALL_SIZES, ((), privacy_budget(500_000)), strict=True)
    ]


def _service_files() -> list[bytes]:
    files = provision(TASK, SeededEntropy(b"provision"))
    return [file.encode() for file in files.values()]


KINDS: Sequence[type[Message]] = sorted({type(each) for each in SAMPLES}, key=lambda k: k.__name__)

DECODERS: Mapping[str, Decoded] = {
    **{kind.__name__: Decoded(message(kind), _samples(kind)) for kind in KINDS},
    "answers_so_far": Decoded(
        message(AnswersSoFar),
        [encode(AnswersSoFar(1, 3)), encode(AnswersSoFar(1, 3, (WindowCount(3600, 5),)))],
    ),
    "uploaded_reports": Decoded(uploaded_reports, [*_samples(UploadRequest), *_reports()]),
    "aggregation_job": Decoded(
        aggregation_job, [bytes(7) + bytes(sizes.verify_init(32)) for sizes in ALL_SIZES]
    ),
    "attribution": Decoded(
        attribution,
        [
            PAID.configuration_bytes,
            encode(CollectionJobReq(LeaderSelectedQuery(), extensions=min_dp_budget(500_000))),
        ],
    ),
    "framed_request": Decoded(
        framed_request,
        [
            bytes(5) + b"\1" + bytes(2) + b"\0\0\0\1x",
            bytes(5) + b"\2\0\x20" + bytes(32) + b"\0\0\0\1x",
        ],
    ),
    "framed_answer": Decoded(framed_answer, [b"\0\0\0\1x"]),
    "ping_pong": Decoded(ping_pong, [encode_ping_pong(kind, b"content") for kind in MessageType]),
    "aggregate_share": Decoded(aggregate_share, [bytes(TASK.prio3.field.encoded_size)]),
    "sealed": Decoded(sealed, [CIPHERTEXT]),
    "hpke_configs": Decoded(hpke_configs, _samples(HpkeConfigList)),
    "privacy_policy": Decoded(
        privacy_policy, [encode_policy(make_task(privacy=each).policy) for each in POLICIES]
    ),
    "permit_lists": Decoded(
        permit_lists,
        [
            write_lists([listed(bytes(32), {3: [b"a" * 16, b"b" * 16], 4: []})]),
            encode(Replacements(bytes(32), {3: [(b"a" * 16, b"b" * 16)]})),
            to_header({3: in_short(10, "0123456789abcdef"), 4: in_short(9, "f" * 64)}).encode(),
        ],
    ),
    "permit_code": Decoded(permit_code, [code_of(bytes(16)).encode()]),
    "rational": Decoded(rational, [b"1/10", b"0.1", b"3", b"1e-6"]),
    "base64url": Decoded(base64url, [str(TASK.task_id).encode()]),
    "content_type": Decoded(
        content_type, [media_type("upload-req").encode(), b'a/b; x="\\"y" ;message="z"']
    ),
    "authorization": Decoded(authorization, [b"Bearer token", b"bearer  a._~+/-==  "]),
    "task_file": Decoded(
        task_file,
        [each.encode() for each in (TASK_FILE, tasks_to_toml([PAID]), tasks_to_json([TASK]))],
    ),
    "service_file": Decoded(service_file, _service_files()),
    "peer_answer": Decoded(peer_answer, PEER_ANSWERS),
    "http_answer": Decoded(http_answer, HTTP_ANSWERS),
}
"""Every decoder by name: what clients, peers, collectors and other parties' files may hold."""
