"""Makes a task from what a command was given, and writes its files."""

import dataclasses
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.options import parse_time
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.dap.profile import Role
    from aggregator.issuer import PrivateKeys
    from aggregator.protocol.task import Task

Setting = str | int  # bool is an int
BOOLEANS = {"true": True, "false": False}
TEXTS = ("population", "public_buckets")  # text even if it is all digits
SECRET_MODE = 0o600


def make_task(
    collector_config: "HpkeConfig",
    vdaf: Mapping[str, Setting],
    privacy: Mapping[str, Setting],
    **settings: Setting | Mapping[str, object],
) -> "Task":
    """Return a new task under a fresh id.

    Args:
        collector_config: The configuration to which results are sealed.
        vdaf: The `[vdaf]` table of the task file.
        privacy: Its `[privacy]` table.
        settings: Everything else in the file: `leader`, `helper`, `time_precision`,
            `min_batch_size`, `max_reports`, `task_info`, `batch_mode` unless batches are
            intervals, `profile` unless it is the default, `interval` unless the task takes
            reports of any time, and `permits` if it takes no report without one.

    Raises:
        ParameterError: A setting is missing or out of range; the message names it.
    """
    from aggregator.codec import encode
    from aggregator.dap.ids import TaskId, encode_base64url
    from aggregator.protocol.task_file import TASK_FILE_VERSION, task_from_table

    top: dict[str, object] = {
        "version": TASK_FILE_VERSION,
        "id": str(TaskId.random(SystemEntropy())),
        "batch_mode": "time_interval",
        "collector_hpke_config": encode_base64url(encode(collector_config)),
        **settings,
    }
    return task_from_table({**top, "vdaf": vdaf, "privacy": privacy})


def interval_of(
    start: str | None, duration: int | None, time_precision: int
) -> dict[str, Mapping[str, int]]:
    """Return the `[interval]` table of a task that takes reports from `start` on, if it has one.

    Raises `ParameterError` if only one of the two is given, or the start is not on a unit of time.
    """
    seconds = parse_time(start, "start")
    if seconds is None and duration is None:
        return {}
    if seconds is None or duration is None:
        raise ParameterError("start: give both --start and --duration, or neither")
    if seconds < 0 or seconds % max(1, time_precision):
        raise ParameterError(
            f"start: must be a multiple of the time precision, {time_precision} seconds"
        )
    interval = {"start": seconds // max(1, time_precision), "duration": duration}
    return {"interval": interval}


def window_of(window: int | None, start: str | None, time_precision: int) -> dict[str, int]:
    """Return the window in a privacy table; empty if there is none.

    Its length is in units of time, whose precision is in seconds, and `start` is ISO 8601 or
    seconds since 1970. Raises `ParameterError` if that is given alone, or is not on a unit.
    """
    if window is None:
        if start is not None:
            raise ParameterError("window-start: needs --window")
        return {}
    seconds = parse_time(start, "window-start") or 0
    if seconds % max(1, time_precision):
        raise ParameterError(
            f"window-start: must be a multiple of the time precision, {time_precision} seconds"
        )
    first = seconds // max(1, time_precision) % max(1, window)
    return {"window": window, "window_start": first}


def write_files(task: "Task", out: Path) -> None:
    """Write a task's public file and each party's file, with fresh secrets, to a new folder.

    Raises FileExistsError if the folder exists.
    """
    from aggregator.protocol.provisioning import provision
    from aggregator.protocol.task_file import task_to_toml

    write_folder(out, {"task.toml": task_to_toml(task)}, provision(task, SystemEntropy()))


def write_files_in_band(task: "Task", out: Path) -> "Task":
    """Write the public file and the collector's of a task that comes in band, and return it.

    Its id is the hash of its configuration. Raises what `write_files` does, and `ParameterError` if
    PRIO_COLLECTOR_TOKEN is missing or too short.
    """
    from aggregator.dap.profile import Role
    from aggregator.protocol.in_band import id_of
    from aggregator.protocol.provisioning import provision_text, read_provision
    from aggregator.protocol.task_file import task_to_toml

    token = os.environ.get("PRIO_COLLECTOR_TOKEN")
    if token is None:
        raise ParameterError(
            "in-band: PRIO_COLLECTOR_TOKEN is missing, the token that was agreed on with the leader"
        )
    task = dataclasses.replace(task, task_id=id_of(task.configuration_bytes))
    own = provision_text(task, Role.COLLECTOR, {"collector_token": token})
    read_provision(own, Role.COLLECTOR)  # refuses a token that could be guessed
    write_folder(out, {"task.toml": task_to_toml(task)}, {Role.COLLECTOR: own})
    return task


def write_folder(
    out: Path,
    public: Mapping[str, str],
    secret: "Mapping[Role, str]",
    issuer: "PrivateKeys | None" = None,
) -> None:
    """Write public files by name, and each party's file, to a new folder; see `write_files`.

    An issuer's private keys, if there are some, are another file for its owner only.
    """
    from aggregator.collector.results.whole_files import folder_made_whole

    with folder_made_whole(out) as folder:
        for name, text in public.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        for role, text in secret.items():
            _write_secret(folder / f"{role.name.lower()}.toml", text)
        if issuer is not None:
            issuer.write(folder / "issuer.keys")


def collector_config_of(text: str) -> "HpkeConfig":
    """Return the configuration that `prio collector config` prints, or raise `ParameterError`."""
    from aggregator.codec import DecodeError, decode
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.dap.ids import decode_base64url

    try:
        return decode(HpkeConfig, decode_base64url(text))
    except DecodeError as error:
        raise ParameterError(
            f"collector_config: not what `prio collector config` prints: {error}"
        ) from None


def privacy_table(file: Path) -> dict[str, Setting]:
    """Return the `[privacy]` table of a file, or raise `ParameterError`."""
    from aggregator.protocol.task_documents import NOT_TOML
    from aggregator.service.config import read_text

    try:
        document = tomllib.loads(read_text(file))
    except NOT_TOML as error:
        raise ParameterError(f"privacy-file: not TOML: {error}") from None
    table = document.pop("privacy", None)
    if document or not isinstance(table, dict):
        raise ParameterError("privacy-file: must have the table [privacy] and nothing else")
    for name, value in table.items():
        if not isinstance(value, str | int):
            raise ParameterError(f"privacy-file: {name} must be text or a whole number")
    return table


def assignment(text: str) -> tuple[str, Setting]:
    """Return name and value of NAME=VALUE; whole numbers and `bound` have their own types."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ParameterError(f"privacy: must be NAME=VALUE, not {text!r}")
    if name == "bound" and value in BOOLEANS:
        return name, BOOLEANS[value]
    return name, int(value) if value.isdecimal() and name not in TEXTS else value


def _write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can ever read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE), "w") as file:
        file.write(text)
