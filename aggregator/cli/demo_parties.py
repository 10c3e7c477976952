"""The parties of a demo: a file of settings and a service for each, on free ports."""

import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from aggregator.cli.local_services import Program

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


def programs(
    folder: Path, configs: Mapping[str, Path], urls: Mapping[str, str], names: Sequence[str]
) -> list[Program]:
    """Return the services of some parties."""
    prio = (sys.executable, "-m", "aggregator.cli")
    return [
        Program(
            name,
            [*prio, *COMMANDS[name], "--config", configs[name]],
            folder / f"{name}.log",
            f"{urls[f'{name} status']}healthz",
        )
        for name in names
    ]
