"""Services that run as processes of another: slow ones, dying ones, and what ends them."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from aggregator.cli.local import services as local_services
from aggregator.cli.local.services import Program, running
from aggregator.errors import LocalError
from tests.support.ports import free_ports

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

SERVE = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
"""


def program(folder: Path, source: str, name: str = "leader") -> Program:
    """Return a program in Python, whose first argument is the port at which it may serve."""
    (port,) = free_ports(1)
    command = [sys.executable, "-c", source, str(port)]
    return Program(name, command, folder / f"{name}.log", f"http://127.0.0.1:{port}/healthz")


def died(folder: Path, source: str) -> str:
    """Return what is said of a program that dies."""
    with pytest.raises(LocalError) as error, running([program(folder, source)]):
        pytest.fail("it served")
    return str(error.value)


def is_there(pid: int) -> bool:
    """Return whether a process lives; one that nobody has waited for does not (Linux)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_slow_service_is_waited_for_while_it_lives_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(local_services, "TELL_SECONDS", 0.01)
    slow = program(tmp_path, f"import time; time.sleep(2)\n{SERVE}\nserver.serve_forever()")
    began = time.monotonic()
    with running([slow]):
        assert time.monotonic() - began > 2
    told = capfd.readouterr().err.splitlines()
    assert len(told) > 2
    assert all(each.startswith("prio: the leader has been starting for ") for each in told)


def test_a_service_that_takes_connections_long_before_it_answers_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_services, "_ANSWER_SECONDS", 0.1)
    held = f"import time\n{SERVE}\ntime.sleep(1)\nserver.serve_forever()"
    with running([program(tmp_path, held)]) as services:
        services.check()


def test_one_that_dies_is_shown_with_its_exit_status_and_its_last_lines(tmp_path: Path) -> None:
    said = died(tmp_path, "print('one'); print('no such disk'); raise SystemExit(7)")
    assert said == (
        f"the leader died (exit status 7); the last lines of {tmp_path}/leader.log:"
        "\n  one\n  no such disk"
    )


def test_one_that_dies_without_a_word_is_said_to_have_printed_nothing(tmp_path: Path) -> None:
    assert died(tmp_path, "raise SystemExit(0)") == (
        "the leader died (exit status 0); it printed nothing"
    )


def test_one_that_closed_its_log_is_shown_with_what_it_printed_before(tmp_path: Path) -> None:
    source = "import os; os.write(1, b'last words\\n'); os.close(1); os.close(2); os._exit(3)"
    assert died(tmp_path, source).endswith("leader.log:\n  last words")


def test_one_that_is_killed_is_shown_with_the_signal(tmp_path: Path) -> None:
    assert "(killed by SIGKILL)" in died(tmp_path, "import os; os.kill(os.getpid(), 9)")


@pytest.mark.parametrize("end", ["\\n", " "])
def test_of_megabytes_only_the_last_lines_are_read_and_shown(tmp_path: Path, end: str) -> None:
    said = died(tmp_path, f"print('x' * 99, end='{end}' * 1); print(('y' * 99 + '{end}') * 50_000)")
    assert (tmp_path / "leader.log").stat().st_size > 4 * 2**20
    assert 99 < len(said) < 8192
    assert len(said.splitlines()) <= 1 + local_services.LAST_LINES


def test_what_would_act_on_a_terminal_is_shown_and_what_is_no_text_too(tmp_path: Path) -> None:
    source = r"import os; os.write(1, b'\x1b]0;mine\x07 \xff\xfe\n'); raise SystemExit(1)"
    said = died(tmp_path, source)
    assert "\x1b" not in said
    assert r"\x1b]0;mine\x07" in said


def test_when_one_dies_the_others_are_ended(tmp_path: Path) -> None:
    lives = program(
        tmp_path,
        f"{SERVE}\nimport os; print(os.getpid(), flush=True); server.serve_forever()",
        "helper",
    )
    dies = program(
        tmp_path, f"{SERVE}\nimport os; server.handle_request(); print('bye'); os._exit(4)"
    )
    with (
        pytest.raises(LocalError, match=r"the leader died \(exit status 4\)"),
        running([lives, dies]) as services,
    ):
        services.watch()
    assert not is_there(int(lives.log.read_text()))


def test_what_an_earlier_one_printed_is_kept_and_not_shown_again(tmp_path: Path) -> None:
    died(tmp_path, "print('of old'); raise SystemExit(1)")
    assert "of old" not in died(tmp_path, "print('of now'); raise SystemExit(1)")
    assert (tmp_path / "leader.log.1").read_text() == "of old\n"


def test_a_log_is_its_owners_alone(tmp_path: Path) -> None:
    died(tmp_path, "raise SystemExit(1)")
    assert (tmp_path / "leader.log").stat().st_mode & 0o777 == 0o600


LOOKS_AFTER = """
import json, sys
from pathlib import Path
from aggregator.cli.local import services as local_services
from aggregator.cli.local.services import Program, running
local_services.TELL_SECONDS = 0.05
given = json.loads(sys.argv[1])
programs = [Program(name, command, Path(log), url) for name, command, log, url in given]
try:
    with running(programs) as services:
        print("all serve", flush=True)
        services.watch()
except KeyboardInterrupt:
    print("ended", flush=True)
"""
STUBBORN = f"""
import signal
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
{SERVE}
import os; print(os.getpid(), flush=True)
server.serve_forever()
"""
WILLING = f"{SERVE}\nimport os; print(os.getpid(), flush=True); server.serve_forever()"


def looked_after(programs: Sequence[Program]) -> subprocess.Popen[str]:
    """Start a process that runs programs and looks after them."""
    given = [[each.name, [*each.command], str(each.log), each.url] for each in programs]
    return subprocess.Popen(  # noqa: S603  our own command
        [sys.executable, "-c", LOOKS_AFTER, json.dumps(given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        start_new_session=True,
        # The process that started the tests may ignore them.
        preexec_fn=lambda: [  # noqa: PLW1509  as above
            signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)
        ],
    )


def pid_of(program: Program) -> int:
    """Return the number of a program's process, which it prints."""
    return int(program.log.read_text().split()[0])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_all_of_them(tmp_path: Path, number: signal.Signals) -> None:
    programs = [program(tmp_path, WILLING, name) for name in ("leader", "helper")]
    looks = looked_after(programs)
    assert looks.stdout is not None
    assert looks.stdout.readline() == "all serve\n"
    os.killpg(looks.pid, number)  # as a terminal does
    out, err = looks.communicate()
    assert (looks.returncode, out) == (0, "ended\n")
    assert "killed" not in err
    assert not any(is_there(pid_of(each)) for each in programs)


def test_ctrl_c_while_one_is_starting_ends_all(tmp_path: Path) -> None:
    slow = program(tmp_path, "import os, time; print(os.getpid(), flush=True); time.sleep(9999)")
    looks = looked_after([slow])
    assert looks.stderr is not None
    assert looks.stderr.readline().startswith("prio: the leader has been starting")
    while not slow.log.read_text():
        time.sleep(0.05)
    os.killpg(looks.pid, signal.SIGINT)
    assert looks.communicate()[0] == "ended\n"
    assert not is_there(pid_of(slow))


def test_a_second_ctrl_c_kills_what_does_not_end(tmp_path: Path) -> None:
    stubborn = program(tmp_path, STUBBORN)
    looks = looked_after([stubborn])
    assert looks.stdout is not None
    assert looks.stderr is not None
    assert looks.stdout.readline() == "all serve\n"
    os.killpg(looks.pid, signal.SIGINT)
    while "Ctrl-C again kills it" not in looks.stderr.readline():
        pass
    assert is_there(pid_of(stubborn))
    os.killpg(looks.pid, signal.SIGINT)
    out, err = looks.communicate()
    assert (looks.returncode, out) == (0, "ended\n")
    assert err.endswith("the leader was killed while it ended what was under way\n")
    assert not is_there(pid_of(stubborn))


@pytest.mark.skipif(sys.platform != "linux", reason="other systems leave the services running")
def test_they_end_with_whoever_looked_after_them_even_if_that_was_killed(tmp_path: Path) -> None:
    willing = program(tmp_path, WILLING)
    looks = looked_after([willing])
    assert looks.stdout is not None
    assert looks.stdout.readline() == "all serve\n"
    looks.kill()
    looks.communicate()
    while is_there(pid_of(willing)):
        time.sleep(0.05)
