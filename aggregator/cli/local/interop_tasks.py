"""Tasks as the interoperability test API describes them: JSON members to a `Task`.

Numbers may be text, null members count as missing, and unknown members are ignored. The API's older
names are accepted beside the present ones.

Source: draft-dcook-ppm-dap-interop-test-design, and the names that implementations use today.
"""

from collections.abc import Mapping

from aggregator.codec import encode
from aggregator.dap.auth import TokenHeader
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import BatchMode, Profile
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import TASK_FILE_VERSION, task_from_table

TASK_INFO = "task-info"
"""The `task_info` that all implementations use, because the API cannot express it."""

_MOST_REPORTS = 10**6
_MOST_DIGITS = 20

Members = Mapping[str, object]


def text_of(members: Members, *names: str) -> str:
    """Return the text of the first member that is present, or raise `ParameterError`."""
    value = _first(members, *names)
    if not isinstance(value, str):
        raise ParameterError(f"{names[0]}: must be text")
    return value


def number_of(members: Members, *names: str) -> int:
    """Return the whole number of the first member that is present; it may be text of digits.

    Raises `ParameterError` if none is present, or it is not a whole number.
    """
    return _number(names[0], _first(members, *names))


def optional(members: Members, *names: str) -> object:
    """Return the first member that is present and not null."""
    return next((members[name] for name in names if members.get(name) is not None), None)


def task_of(
    members: Members, collector_config: HpkeConfig, profile: Profile, token_header: TokenHeader
) -> Task:
    """Return the task that a request describes; no party adds noise.

    Raises `ParameterError` if a member is missing or out of range.
    """
    precision = number_of(members, "time_precision")
    table: dict[str, object] = {
        "version": TASK_FILE_VERSION,
        "id": text_of(members, "task_id"),
        "task_info": TASK_INFO,
        "leader": text_of(members, "leader"),
        "helper": text_of(members, "helper"),
        "time_precision": precision,
        "min_batch_size": number_of(members, "min_batch_size"),
        "batch_mode": _batch_mode(number_of(members, "batch_mode", "query_type")),
        "collector_hpke_config": encode_base64url(encode(collector_config)),
        "profile": profile.name,
        "token_header": token_header.value,
        "vdaf": _vdaf(_first(members, "vdaf")),
        # The API does not cover privacy: interoperability tests compare exact sums.
        "privacy": {"mechanism": "None", "bound": False},
        **_interval(members, precision),
    }
    most = max(_MOST_REPORTS, number_of(members, "min_batch_size"))
    while True:
        try:
            return task_from_table(table | {"max_reports": most})
        except ParameterError as error:
            # The sum of this many measurements might wrap around the field.
            if not str(error).startswith("max_reports") or most == 1:
                raise
            most = max(1, most // 10)


def _first(members: Members, *names: str) -> object:
    value = optional(members, *names)
    if value is None:
        raise ParameterError(f"{names[0]}: missing")
    return value


def _number(name: str, value: object) -> int:
    if (
        isinstance(value, str)
        and value.isascii()
        and value.isdigit()
        and len(value) <= _MOST_DIGITS
    ):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ParameterError(f"{name}: must be a whole number")


def _batch_mode(number: int) -> str:
    try:
        return BatchMode(number).name.lower()
    except ValueError:
        modes = " or ".join(str(int(mode)) for mode in BatchMode)
        raise ParameterError(f"batch_mode: must be {modes}, not {number}") from None


def _vdaf(described: object) -> dict[str, str | int]:
    if not isinstance(described, dict):
        raise ParameterError("vdaf: must be an object")
    numbers = {
        name: _number(f"vdaf.{name}", value)
        for name, value in described.items()
        if name not in ("type", "bits")
    }
    if "bits" in described:  # the sum's parameter in an earlier VDAF draft
        bits = _number("vdaf.bits", described["bits"])
        numbers["max_measurement"] = 2 ** min(bits, 64) - 1
    return {"type": text_of(described, "type"), **numbers}


def _interval(members: Members, precision: int) -> dict[str, object]:
    start, end = (optional(members, name) for name in ("task_start", "task_end"))
    if start is None and end is None:
        return {}
    if start is None or end is None:
        raise ParameterError("task_start: goes with task_end")
    first, last = _number("task_start", start), _number("task_end", end)
    if precision < 1 or first % precision or last % precision:
        raise ParameterError("task_start: must be a multiple of time_precision, as task_end")
    return {"interval": {"start": first // precision, "duration": (last - first) // precision}}
