"""A Docker engine with Compose: the one that is running, or the one that PRIO_DOCKER_UP starts."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
UP_VARIABLE = "PRIO_DOCKER_UP"
UP_SECONDS = 900.0
COMMAND_SECONDS = 900.0


class NoEngine(Exception):
    """There is no engine, and no command that starts one."""


def engine_environment() -> dict[str, str]:
    """Return the environment in which `docker` reaches an engine with Compose.

    Raises:
        NoEngine: None can be reached or started.
    """
    environment = dict(os.environ)
    if _answers(environment):
        return environment
    command = environment.get(UP_VARIABLE)
    if not command:
        raise NoEngine(f"no Docker engine with Compose here, and {UP_VARIABLE} names no command")
    # The command prints lines such as `export DOCKER_HOST=…`, meant for a shell to evaluate.
    done = subprocess.run(  # noqa: S603 - the command is the caller's own
        ["bash", "-c", f'exports=$({command}) && eval "$exports" && env -0'],  # noqa: S607 - found on the PATH
        capture_output=True,
        text=True,
        timeout=UP_SECONDS,
        check=False,
    )
    if done.returncode:
        raise NoEngine(f"{UP_VARIABLE}: {command!r} failed: {done.stderr[-500:]}")
    environment = dict(line.split("=", 1) for line in done.stdout.split("\0") if line)
    if not _answers(environment):
        raise NoEngine(f"{UP_VARIABLE}: {command!r} gave no engine with Compose")
    return environment


def _answers(environment: Mapping[str, str]) -> bool:
    try:
        return all(
            subprocess.run(  # noqa: S603 - a fixed command
                ["docker", *command],  # noqa: S607 - found on the PATH
                env=environment,
                capture_output=True,
                timeout=60,
                check=False,
            ).returncode
            == 0
            for command in (["info"], ["compose", "version"])
        )
    except FileNotFoundError:
        return False


class Project:
    """The project of docker-compose.yml under a name of its own."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        self.name = name
        self._environment = environment

    def compose(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run `docker compose` and return what it printed."""
        return self.docker(
            *("compose", "--project-name", self.name, "--project-directory", ROOT, *arguments),
            stdin=stdin,
        )

    def docker(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run `docker` and return what it printed."""
        done = subprocess.run(  # noqa: S603 - our own command
            ["docker", *arguments],  # noqa: S607 - found on the PATH
            env=self._environment,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr[-3000:])
        return done.stdout

    def prio(self, service: str, *arguments: str, stdin: str = "") -> str:
        """Run `prio` in the container of a running service."""
        return self.compose("exec", "-T", service, "prio", *arguments, stdin=stdin)

    def client(self, folder: Path, *arguments: str) -> str:
        """Run `prio` as whoever makes tasks and uploads, with `folder` as its /survey."""
        user = f"{os.getuid()}:{os.getgid()}"
        return self.compose(
            *("run", "--rm", "-T", "--user", user, "--volume", f"{folder}:/survey"),
            *("client", *arguments),
        )

    def containers(self) -> dict[str, dict[str, object]]:
        """Return what the engine knows about each service's container."""
        ids = self.compose("ps", "--all", "--quiet").split()
        described: Sequence[dict[str, object]] = json.loads(self.docker("inspect", *ids))
        return {_service(each): each for each in described}

    def left(self) -> list[str]:
        """Return the containers, volumes and networks of the project that exist."""
        label = f"label=com.docker.compose.project={self.name}"
        return [
            *self.docker("ps", "--all", "--quiet", "--filter", label).split(),
            *self.docker("volume", "ls", "--quiet", "--filter", label).split(),
            *self.docker("network", "ls", "--quiet", "--filter", label).split(),
        ]


def _service(container: dict[str, object]) -> str:
    config = container["Config"]
    assert isinstance(config, dict)
    return str(config["Labels"]["com.docker.compose.service"])
