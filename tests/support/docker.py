"""A Docker engine with Compose: the one that is running, or the one that PRIO_DOCKER_UP starts."""

import fcntl
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.leftovers import unmarked_environment

ROOT = Path(__file__).parents[2]
UP_VARIABLE = "PRIO_DOCKER_UP"
UP_SECONDS = 3600.0
COMMAND_SECONDS = 3600.0
PULL_SECONDS = 300.0


class NoEngine(Exception):
    """There is no engine, and no command that starts one."""


@contextmanager
def engine(*images: str) -> Iterator[dict[str, str]]:
    """Yield the environment in which `docker` reaches an engine with Compose.

    One caller on the machine at a time: an engine is started, and an image built, once.

    Args:
        images: What the engine must have, or be able to pull.

    Raises:
        NoEngine: None can be reached or started, or an image cannot be had.
    """
    with Path(tempfile.gettempdir(), "prio-test-engine.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        environment = _engine_environment()
        for image in images:
            if not any(
                _succeeds(environment, *command)
                for command in (
                    ("image", "inspect", image),
                    ("pull", "--quiet", image),
                    # An engine without a registry may have it by the tag of its minor version.
                    ("tag", _without_patch(image), image),
                )
            ):
                raise NoEngine(f"the engine has no image {image} and cannot pull it")
        yield environment


def _without_patch(image: str) -> str:
    """Return the tag `python:3.12-slim` for `python:3.12.11-slim-bookworm`."""
    return re.sub(r"(:[0-9.]+)\.[0-9]+((?:-slim)?)-bookworm$", r"\1\2", image)


def base_images() -> list[str]:
    """Return what our Dockerfile is built from."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    return sorted({line.split()[1] for line in lines if line.startswith("FROM ") and ":" in line})


def _engine_environment() -> dict[str, str]:
    environment = unmarked_environment()  # The caller that gave the command ends the engine.
    if _answers(environment):
        return environment
    command = environment.get(UP_VARIABLE)
    if not command:
        raise NoEngine(f"no Docker engine with Compose here, and {UP_VARIABLE} names no command")
    # The command prints lines such as `export DOCKER_HOST=…`, meant for a shell to evaluate.
    done = subprocess.run(  # noqa: S603 - the command is the caller's own
        ["bash", "-c", f'exports=$({command}) && eval "$exports" && env -0'],  # noqa: S607 - found on the PATH
        env=environment,
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
    return _succeeds(environment, "info") and _succeeds(environment, "compose", "version")


def _succeeds(environment: Mapping[str, str], *command: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            ["docker", *command],  # noqa: S607 - found on the PATH
            env=environment,
            capture_output=True,
            timeout=PULL_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


class Project:
    """A project of compose files under a name of its own."""

    def __init__(
        self, name: str, environment: Mapping[str, str], *files: str, profile: str = ""
    ) -> None:
        self.name = name
        self._environment = environment
        self._files = tuple(part for file in files for part in ("--file", ROOT / file))
        self._profile = ("--profile", profile) if profile else ()

    def compose(self, *arguments: str | Path, stdin: str = "") -> str:
        """Run `docker compose` and return what it printed."""
        return self.docker(
            *("compose", "--project-name", self.name, *self._files, *self._profile, *arguments),
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

    @contextmanager
    def removed_afterwards(self) -> Iterator[None]:
        """Remove whatever there is of the project at the end, with its volumes."""
        try:
            yield
        finally:
            self.compose("--profile", "*", "down", "--volumes", "--timeout", "20")
            assert self.left() == []

    def prio(self, service: str, *arguments: str, stdin: str = "") -> str:
        """Run `prio` in the container of a running service."""
        return self.compose("exec", "-T", service, "prio", *arguments, stdin=stdin)

    def client(self, folder: Path, *arguments: str) -> str:
        """Run `prio` as a maker of tasks and reports would, with `folder` as its /survey."""
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


@contextmanager
def brought_up(
    name: str, ports: Mapping[str, int], file: str, *up: str, images: Sequence[str] = ()
) -> Iterator[Project]:
    """Yield a project whose services are healthy, and remove it; skip the test without an engine.

    Args:
        name: What its name begins with.
        ports: Where each party is published.
        file: The compose file.
        *up: Options for `docker compose up`.
        images: What the engine must have besides the images that ours are built from.
    """
    published = {f"{party.upper()}_PORT": str(port) for party, port in ports.items()}
    try:
        with engine(*images, *base_images()) as environment:
            project = Project(f"{name}-{os.getpid()}", environment | published, file)
            with project.removed_afterwards():
                project.compose("up", "--build", "--detach", "--wait", *up)
                yield project
    except NoEngine as reason:
        pytest.skip(str(reason))
