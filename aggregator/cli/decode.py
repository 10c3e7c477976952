"""`prio decode`: prints a DAP message as text, field by field.

Of ciphertexts and shares it shows the size and the first bytes. It never prints plaintext input
shares, which are secret.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.dap.hpke import HpkeCiphertext, HpkeConfig, HpkeConfigList
from aggregator.dap.messages import (
    AggregateShare,
    AggregateShareAad,
    AggregateShareReq,
    AggregationJobContinueReq,
    AggregationJobInitReq,
    AggregationJobResp,
    CollectionJobReq,
    CollectionJobResp,
    InputShareAad,
    Report,
    ReportShare,
    UploadErrors,
    UploadRequest,
    VerifyInit,
)
from aggregator.dap.profile import PROFILES
from aggregator.dap.task import TaskConfiguration
from aggregator.errors import ParameterError

if TYPE_CHECKING:
    from aggregator.codec import Message

PREFIX_SIZE = 16
"""How many bytes of a long byte string are shown."""

_REPORT_ERRORS = ("error", "report_error")
"""The members of messages that hold a report error's number."""

MESSAGES: "Mapping[str, type[Message]]" = {
    AggregateShare.message: AggregateShare,
    "aggregate-share-aad": AggregateShareAad,
    AggregateShareReq.message: AggregateShareReq,
    AggregationJobContinueReq.message: AggregationJobContinueReq,
    AggregationJobInitReq.message: AggregationJobInitReq,
    AggregationJobResp.message: AggregationJobResp,
    CollectionJobReq.message: CollectionJobReq,
    CollectionJobResp.message: CollectionJobResp,
    "hpke-ciphertext": HpkeCiphertext,
    "hpke-config": HpkeConfig,
    HpkeConfigList.message: HpkeConfigList,
    "input-share-aad": InputShareAad,
    "report": Report,
    "report-share": ReportShare,
    "task-configuration": TaskConfiguration,
    UploadErrors.message: UploadErrors,
    UploadRequest.message: UploadRequest,
    "verify-init": VerifyInit,
}
"""The messages that can be printed, by name: the media type's name if there is one."""


def decode_file(
    file: Annotated[
        str, typer.Argument(help="The file that holds the message; - for standard input.")
    ],
    message: Annotated[
        str, typer.Option("--message", "-m", help=f"One of {', '.join(sorted(MESSAGES))}.")
    ],
    is_hex: Annotated[
        bool, typer.Option("--hex", help="The file holds hexadecimal text instead of bytes.")
    ] = False,
) -> None:
    """Print a DAP message as text, field by field."""
    from aggregator.codec import DecodeError, decode

    if message not in MESSAGES:
        raise typer.BadParameter(f"must be one of {', '.join(sorted(MESSAGES))}, not {message}")
    try:
        data = _read(file, is_hex=is_hex)
    except (OSError, ValueError) as error:
        typer.echo(f"{file} cannot be read: {error}", err=True)
        raise typer.Exit(1) from error
    try:
        decoded = decode(MESSAGES[message], data)
    except DecodeError as error:
        typer.echo(f"{len(data)} bytes are not a valid {message}: {error}", err=True)
        raise typer.Exit(1) from error
    for line in describe(decoded):
        typer.echo(line)


def describe(message: "Message") -> Iterator[str]:
    """Yield the lines that show `message`."""
    yield type(message).__name__
    yield from _fields(message, 1)


def _fields(value: object, depth: int) -> Iterator[str]:
    from aggregator.dap.extensions import Extension
    from aggregator.dap.messages import BatchSelector, Query, ReportUploadStatus, VerifyRespReject

    if isinstance(value, Extension):
        yield from _show("extension_type", value.extension_type, depth)
        yield from _show("extension_data", value.extension_data, depth)
    elif dataclasses.is_dataclass(value):
        names = [described.name for described in dataclasses.fields(value)]
        if isinstance(value, Query | BatchSelector):
            names.insert(0, "batch_mode")  # the class implies it
        for name in names:
            if isinstance(value, ReportUploadStatus | VerifyRespReject) and name in _REPORT_ERRORS:
                yield f"{'  ' * depth}{name}: {_report_error(getattr(value, name))}"
            else:
                yield from _show(name, getattr(value, name), depth)
            if isinstance(value, TaskConfiguration) and name == "vdaf_configuration":
                yield f"{'  ' * (depth + 1)}{_vdaf(value)}"


def _report_error(code: int) -> str:
    """Return the meaning of a report error's number, in each draft if they differ."""
    names = {each.report_error(code).draft_name for each in PROFILES.values()}
    if len(names) == 1:
        return f"{names.pop()} ({code})"
    named = (f"{each.report_error(code).draft_name} in {each.name}" for each in PROFILES.values())
    return f"{code} ({', '.join(named)})"


def _vdaf(configuration: TaskConfiguration) -> str:
    """Return the type and the parameters in a VDAF configuration."""
    from aggregator.vdaf.instances import prio3_from_configuration

    try:
        prio3 = prio3_from_configuration(configuration.vdaf_type, configuration.vdaf_configuration)
    except ParameterError as error:
        return str(error)
    parameters = (f" {name} = {value}" for name, value in prio3.circuit.parameters.items())
    return f"Prio3{prio3.circuit.name}{','.join(parameters)}"


def _show(name: str, value: object, depth: int) -> Iterator[str]:
    from aggregator.dap.extensions import Extension
    from aggregator.dap.ids import Identifier
    from aggregator.dap.times import Duration, Time

    indent = "  " * depth
    match value:
        case tuple() if not isinstance(value, Extension):
            yield f"{indent}{name}: {len(value)}"
            for index, item in enumerate(value):
                yield from _show(f"[{index}]", item, depth + 1)
        case IntEnum():
            yield f"{indent}{name}: {value.name.lower()} ({value.value})"
        case bytes():
            yield f"{indent}{name}: {_bytes(value)}"
        case Identifier():
            yield f"{indent}{name}: {value}"
        case Time() | Duration():
            yield f"{indent}{name}: {value.units} units"
        case int() | str():
            yield f"{indent}{name}: {value!r}"
        case _:
            yield f"{indent}{name}: {type(value).__name__}"
            yield from _fields(value, depth + 1)


def _read(file: str, *, is_hex: bool) -> bytes:
    from aggregator.service.config import read_bytes

    data = read_bytes(Path(file))
    return bytes.fromhex(data.decode("ascii")) if is_hex else data


def _bytes(data: bytes) -> str:
    dots = "…" if len(data) > PREFIX_SIZE else ""
    return f"{len(data)} bytes {data[:PREFIX_SIZE].hex()}{dots}".rstrip()
