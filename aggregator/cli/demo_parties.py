"""The services of a demo: a file of settings and a process for each party, on free ports."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from aggregator.errors import LocalError

START_SECONDS = 60.0
STOP_SECONDS = 10.0
COMMANDS = {
    "leader": ["leader", "serve", "--work"],
    "helper": ["helper", "serve"],
    "collector": ["collector", "serve"],
}


def write_configs(folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """Write a service file for each party; return the files and the services' URLs.

    The URL of a party's status is under its name and "status".
    """
    configs: dict[str, Path] = {}
    urls: dict[str, str] = {}
    names = ("leader", "helper", "collector")
    for name, (port, health_port) in zip(names, _free_ports(len(names)), strict=True):
        urls[name] = f"http://127.0.0.1:{port}/"
        urls[f"{name} status"] = f"http://127.0.0.1:{health_port}/"
        configs[name] = folder / f"{name}.toml"
        configs[name].write_text(
            f'role = "{name}"\n'
            f'database = "{name}.sqlite"\n'
            f'store_key_file = "{name}.key"  # beside the store, where only a demo has it\n'
            f'listen = "127.0.0.1:{port}"\n'
            f'health_listen = "127.0.0.1:{health_port}"\n'
            + ("linger_seconds = 0\ncollection_poll_seconds = 1\n" if name == "leader" else ""),
            encoding="utf-8",
        )
    return configs, urls


def _free_ports(pairs: int) -> list[tuple[int, int]]:
    """Return pairs of loopback ports that nobody listens on."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2 * pairs)
        ]
        ports = [each.getsockname()[1] for each in sockets]
    return list(zip(ports[::2], ports[1::2], strict=True))


@contextmanager
def services(
    folder: Path, configs: Mapping[str, Path], urls: Mapping[str, str], names: Sequence[str]
) -> Iterator[None]:
    """Run the services of some parties, and stop them whatever happens."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_stop, running)
        for name in names:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            running[name] = subprocess.Popen(  # noqa: S603 - our own command
                [
                    sys.executable,
                    "-m",
                    "aggregator.cli",
                    *COMMANDS[name],
                    "--config",
                    configs[name],
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        for name, process in running.items():
            _wait_until_healthy(
                name, process, f"{urls[f'{name} status']}health", folder / f"{name}.log"
            )
        yield


def _wait_until_healthy(name: str, process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(url, timeout=1, trust_env=False).is_success:
                return
        except httpx.TransportError:
            time.sleep(0.1)
    tail = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise LocalError(f"the {name} did not start:\n{tail}")


def _stop(running: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    for process in running.values():
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
