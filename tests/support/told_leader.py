"""Both aggregators' answers to an application's client, as a test says."""

from collections.abc import Callable

from aggregator.client.sender import Later
from aggregator.codec import decode, encode
from aggregator.dap.hpke import HpkeConfigList, HpkeKeypair, generate_keypair
from aggregator.dap.hpke_suites import REQUIRED, Suite
from aggregator.dap.messages import ReportUploadStatus, UploadErrors, UploadRequest
from aggregator.dap.profile import DAP_18
from aggregator.dap.report_errors import ReportError
from tests.support.entropy import SeededEntropy
from tests.support.tasks import HELPER_URL

Turn = Callable[["ToldLeader", bytes], bytes]


def stores(leader: "ToldLeader", body: bytes) -> bytes:
    """Store a request's reports."""
    for report in decode(UploadRequest, body).reports:
        data, key = encode(report), report.report_metadata.report_id.value
        assert leader.stored.setdefault(key, data) == data, "other bytes under an id"
    return b""


def says(error: ReportError | int, *, of_all: bool = False) -> Turn:
    """Say it, or the number of no error, of the first report of a request, or of all."""
    code = error if isinstance(error, int) else DAP_18.code(error)

    def turn(_leader: "ToldLeader", body: bytes) -> bytes:
        ids = [each.report_metadata.report_id for each in decode(UploadRequest, body).reports]
        named = ids if of_all else ids[:1]
        return encode(UploadErrors(tuple(ReportUploadStatus(each, code) for each in named)))

    return turn


def fails(error: Exception, *, after: Turn | None = None) -> Turn:
    def turn(leader: "ToldLeader", body: bytes) -> bytes:
        if after is not None:
            after(leader, body)
        raise error

    return turn


class ToldLeader:
    """Both aggregators' answers, as a test says what happens to the next uploads."""

    def __init__(self) -> None:
        self.clock_ahead: int | None = None
        self.dates: dict[str, int] = {}
        """What time each aggregator says it is, by the beginning of its URLs."""
        self.stored: dict[bytes, bytes] = {}
        self.posts: list[bytes] = []
        self.gets = 0
        self.turns: list[Turn] = []
        self.is_down = False
        self.has_no_keys = False
        self.keypair = self.keys(1)
        self.helper: HpkeKeypair | None = None  # where it has another than the leader

    def keys(self, config_id: int, suite: Suite = REQUIRED) -> HpkeKeypair:
        self.keypair = generate_keypair(config_id, SeededEntropy(config_id), suite)
        return self.keypair

    def date_of(self, url: str) -> int | None:
        return next((date for base, date in self.dates.items() if url.startswith(base)), None)

    def get(self, url: str, message: str, limit: int) -> bytes:
        assert (url.endswith("/hpke_config"), message) == (True, "hpke-config-list")
        if self.is_down or self.has_no_keys:
            raise Later("unreachable")
        self.gets += 1
        its_own = self.helper if url.startswith(HELPER_URL) else None
        keypair = its_own or self.keypair
        answer = encode(HpkeConfigList((keypair.config,)))
        assert len(answer) <= limit
        return answer

    def post(self, url: str, message: str, body: bytes, answer: str, limit: int) -> bytes:
        assert url.endswith("/reports")
        assert (message, answer) == ("upload-req", "upload-errors")
        if self.is_down:
            raise Later("unreachable")
        self.posts.append(body)
        said = (self.turns.pop(0) if self.turns else stores)(self, body)
        assert len(said) <= limit
        return said
