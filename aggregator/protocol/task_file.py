"""Reads and writes tasks as files: a table for each task, in a document of one or several.

`task_documents` reads and writes the documents. A table with secrets is one party's, and read by
`provisioning`. The bytes that the parties agree on are no part of a table: they are the encoding of
its settings.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.attribution import Attribution
from aggregator.dap.auth import TokenHeader, token_header_named
from aggregator.dap.extensions import Extensions
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.ids import TaskId, decode_base64url, encode_base64url
from aggregator.dap.profile import DAP_18, BatchMode, profile_named
from aggregator.dap.task import TaskConfiguration, task_extensions
from aggregator.dap.times import Interval
from aggregator.dp.policy import PrivacyPolicy, encode_policy
from aggregator.dp.policy_table import policy_from_mapping, policy_to_mapping
from aggregator.errors import ParameterError
from aggregator.protocol.permits import Permits
from aggregator.protocol.signed_permits import IssuerKeys
from aggregator.protocol.task import BATCH_MODES, Task, served_modes, without_digest
from aggregator.protocol.task_documents import (
    read_tables,
    table_to_toml,
    tables_to_json,
    tables_to_toml,
)
from aggregator.protocol.toml_table import TomlTable
from aggregator.untrusted_text import escaped, is_unsafe
from aggregator.vdaf.instances import TEXTS, configuration_bytes, vdaf_from_parameters

TASK_FILE_VERSION = 1


def task_from_toml(text: str) -> Task:
    """Read the file of one task: TOML, or the same as JSON.

    Raises:
        ParameterError: The file is neither, holds several tasks, or a setting is missing, unknown
            or out of range; the message names it.
    """
    tasks = tasks_from_toml(text)
    if len(tasks) > 1:
        raise ParameterError(
            f"task file: holds {len(tasks)} tasks where one is needed ("
            + ", ".join(escaped(task.title) for task in tasks)
            + "); `tasks_from_toml` reads them all"
        )
    return tasks[0]


def stored_task(text: str) -> Task:
    """Read the file of a task that a party has stored; a message names the task, too.

    Another version of this program may have stored what is refused now, and the store has many
    tasks. Raises like `task_from_toml`.
    """
    try:
        return task_from_toml(text)
    except ParameterError as error:
        raise ParameterError(f"stored task {_id_in(text)}: {error}") from error


def permits_in(definition: str) -> Permits | None:
    """Return the permits that a stored task file names; None if it names none.

    Raises like `task_from_toml`.
    """
    return stored_task(definition).permits if "permits" in definition else None


def collector_identity_in(definition: str) -> str | None:
    """Return the identity of the collector that a stored task file names, if it names one.

    Raises like `task_from_toml`.
    """
    attribution = stored_task(definition).attribution if "attribution" in definition else None
    return None if attribution is None else attribution.collector_identity


def _id_in(text: str) -> str:
    """Return the id in a file that cannot be read as a whole."""
    try:
        return escaped(str(read_tables(text)[0].get("id", "without an id")))
    except ParameterError:
        return "without an id"


def tasks_from_toml(text: str) -> list[Task]:
    """Read a file of one or more tasks, such as a survey's; raises like `task_from_toml`."""
    tables = read_tables(text)
    tasks = []
    for place, table in enumerate(tables, 1):
        if "secrets" in table:
            raise ParameterError(
                "task file: has secrets, so it is one party's; the public one has none"
            )
        with of_several(table, place, len(tables)):
            tasks.append(task_from_table(table))
    check_ids(tasks)
    return tasks


@contextmanager
def of_several(table: Mapping[str, object], place: int, count: int) -> Iterator[None]:
    """Add to an error about one of several tasks which task it is."""
    try:
        yield
    except ParameterError as error:
        if count == 1:
            raise
        info = table.get("task_info")
        about = f" ({escaped(without_digest(info))})" if isinstance(info, str) and info else ""
        raise ParameterError(f"task {place} of {count}{about}: {error}") from error


def check_ids(tasks: Sequence[Task]) -> None:
    """Refuse several tasks of one id."""
    for task_id, count in Counter(task.task_id for task in tasks).items():
        if count > 1:
            raise ParameterError(f"id: {task_id} is that of {count} tasks")


def task_from_table(table: Mapping[str, object]) -> Task:
    """Read a task's table.

    Raises:
        ParameterError: A setting is missing, unknown or out of range; the message names it.
    """
    if table.keys() & {"role", "service"}:
        raise ParameterError("task file: this is a service file; name the task's file")
    if "version" not in table and table.keys() & {"question", "budget"}:
        raise ParameterError(
            "task file: this is a survey; name the task.toml that `prio survey new` makes of it"
        )
    reader = TomlTable(table, "")
    version = reader.integer("version")
    if version != TASK_FILE_VERSION:
        raise ParameterError(f"version: must be {TASK_FILE_VERSION}, not {version}")
    vdaf = reader.table("vdaf")
    vdaf_type = vdaf.text("type")
    prio3 = vdaf_from_parameters(vdaf_type, vdaf.remaining(TEXTS))
    privacy = dict(reader.table("privacy").values)
    is_bound = privacy.pop("bound", True)
    if not isinstance(is_bound, bool):
        raise ParameterError("privacy.bound: must be true or false")
    policy = policy_from_mapping(privacy)
    permits, issuer_keys = _permits(reader.optional_table("permits"))
    configuration = TaskConfiguration(
        task_info=_task_info(reader),
        leader_aggregator_endpoint=reader.text("leader"),
        helper_aggregator_endpoint=reader.text("helper"),
        time_precision=reader.integer("time_precision"),
        min_batch_size=reader.integer("min_batch_size"),
        batch_mode=_batch_mode(reader.text("batch_mode")),
        vdaf_type=prio3.algorithm_id,
        vdaf_configuration=configuration_bytes(prio3),
        extensions=_extensions(
            reader.optional_table("interval"),
            policy if is_bound else None,
            permits,
            _attribution(reader.optional_table("attribution")),
        ),
    )
    task = Task.create(
        task_id=_task_id(reader.text("id")),
        configuration=configuration,
        collector_hpke_config=collector_config_from_text(reader.text("collector_hpke_config")),
        max_reports=reader.integer("max_reports"),
        unbound_policy=None if is_bound else policy,
        meaning=reader.text_or("meaning", ""),
        profile=profile_named(reader.text_or("profile", DAP_18.name)),
        token_header=token_header_named(
            reader.text_or("token_header", TokenHeader.AUTHORIZATION.value)
        ),
        issuer_keys=issuer_keys,
    )
    if "configuration" in reader.values:
        _check_configuration(reader.text("configuration"), task)
    reader.finish()
    return task


def check_restored(task: Task, data: bytes) -> None:
    """Refuse a task of an encoded configuration that its file would not restore to the byte."""
    again = task_from_table(task_to_table(task))
    if not task.configuration_bytes == again.configuration_bytes == data:
        raise ParameterError(
            "configuration: is not the canonical encoding of what it says, so no report would open "
            "under it; ask the task's maker for its exact bytes"
        )


def task_to_table(task: Task) -> dict[str, object]:
    """Return a table from which `task_from_table` reads an equal task."""
    configuration = task.configuration
    table: dict[str, object] = {
        "version": TASK_FILE_VERSION,
        "id": str(task.task_id),
        **_written_info(configuration.task_info),
        "leader": configuration.leader_aggregator_endpoint,
        "helper": configuration.helper_aggregator_endpoint,
        "time_precision": configuration.time_precision,
        "min_batch_size": configuration.min_batch_size,
        "batch_mode": configuration.batch_mode.name.lower(),
        "collector_hpke_config": encode_base64url(encode(task.collector_hpke_config)),
        "max_reports": task.max_reports,
    }
    if task.profile is not DAP_18:
        table["profile"] = task.profile.name
    if task.token_header is not TokenHeader.AUTHORIZATION:
        table["token_header"] = task.token_header.value
    if task.meaning:
        table["meaning"] = task.meaning
    circuit = task.prio3.circuit
    table["vdaf"] = {"type": f"Prio3{circuit.name}", **circuit.parameters}
    if task.interval is not None:
        start, duration = task.interval.start.units, task.interval.duration.units
        table["interval"] = {"start": start, "duration": duration}
    if task.permits is not None:
        table["permits"] = {
            "domain": encode_base64url(task.permits.domain),
            **({} if task.issuer_keys is None else issuer_keys_to_table(task.issuer_keys)),
        }
    if task.attribution is not None:
        table["attribution"] = dataclasses.asdict(task.attribution)
    unbound = {} if task.is_policy_bound else {"bound": False}
    table["privacy"] = unbound | policy_to_mapping(task.policy)
    return table


def task_to_toml(task: Task) -> str:
    """Return a file of one task, from which `task_from_toml` reads an equal one."""
    return table_to_toml(task_to_table(task))


def tasks_to_toml(tasks: Sequence[Task]) -> str:
    """Return a document of several tasks, from which `tasks_from_toml` reads equal ones."""
    return tables_to_toml([task_to_table(task) for task in tasks])


def tasks_to_json(tasks: Sequence[Task]) -> str:
    """Return the document of `tasks_to_toml` as JSON, for programs in other languages.

    It has one more member, `configuration`: the bytes that are bound into every report, so that a
    client that seals reports needs not encode the task.
    """
    return tables_to_json(
        [
            {**task_to_table(task), "configuration": encode_base64url(task.configuration_bytes)}
            for task in tasks
        ]
    )


def task_for_clients(task: Task) -> dict[str, str]:
    """Return all that a client needs that can decode a `TaskConfiguration`.

    Its bytes say where to ask for keys and to send reports, and they are what a report is bound to.
    """
    follows = {} if task.profile is DAP_18 else {"profile": task.profile.name}
    configuration = encode_base64url(task.configuration_bytes)
    return {"id": str(task.task_id), "configuration": configuration, **follows}


def issuer_keys_to_table(keys: IssuerKeys) -> dict[str, object]:
    """Return what a task's `permits` table says of the keys of signed permits."""
    moduli = " ".join(map(encode_base64url, keys.moduli))
    return {"first_window": keys.first, "keys": moduli}


def issuer_keys_from_table(table: TomlTable, where: str = "") -> IssuerKeys:
    """Take from a table, whose name errors begin with, what `issuer_keys_to_table` has written."""
    keys, first = table.text("keys"), table.integer("first_window")
    try:
        return IssuerKeys(first, tuple(map(decode_base64url, keys.split(" "))))
    except DecodeError as error:
        raise ParameterError(f"{where}keys: {error}") from error
    except ParameterError as error:
        raise ParameterError(f"{where}{error}") from error


def _extensions(
    interval: TomlTable | None,
    policy: PrivacyPolicy | None,
    permits: Permits | None,
    attribution: Attribution | None,
) -> Extensions:
    privacy = None if policy is None else encode_policy(policy)
    permitted = None if permits is None else encode(permits)
    if interval is None:
        return task_extensions(None, privacy, permitted, attribution)
    start, duration = interval.integer("start"), interval.integer("duration")
    interval.finish()
    if duration < 1 or start + duration >= 2**64:
        raise ParameterError(
            "interval: must last at least one unit and end before unit 2^64, "
            f"not start {start} and duration {duration}"
        )
    return task_extensions(Interval.of(start, duration), privacy, permitted, attribution)


def _attribution(table: TomlTable | None) -> Attribution | None:
    if table is None:
        return None
    attribution = Attribution(table.text("collector_identity"), table.text("budget_source"))
    table.finish()
    return attribution


def _permits(table: TomlTable | None) -> tuple[Permits | None, IssuerKeys | None]:
    """Read the permits of a task, and the keys of signed ones."""
    if table is None:
        return None, None
    where = "permits."
    keys = issuer_keys_from_table(table, where) if "keys" in table.values else None
    domain = table.text("domain")
    table.finish()
    try:
        return Permits(decode_base64url(domain), None if keys is None else keys.digest), keys
    except DecodeError as error:
        raise ParameterError(f"{where}domain: {error}") from error
    except ParameterError as error:
        raise ParameterError(f"{where}{error}") from error


def _task_info(reader: TomlTable) -> bytes:
    """Take `task_info`, given as text or, if it is no line of text, as bytes."""
    if "task_info_bytes" not in reader.values:
        text = reader.text("task_info")
        if is_unsafe(text):
            raise ParameterError("task_info: must be one line, without control characters")
        return text.encode()
    if "task_info" in reader.values:
        raise ParameterError("task_info_bytes: give either this or task_info")
    try:
        return decode_base64url(reader.text("task_info_bytes"))
    except DecodeError as error:
        raise ParameterError(f"task_info_bytes: {error}") from error


def _written_info(task_info: bytes) -> dict[str, str]:
    try:
        text = task_info.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or is_unsafe(text):
        return {"task_info_bytes": encode_base64url(task_info)}
    return {"task_info": text}


def _batch_mode(name: str) -> BatchMode:
    for mode in BATCH_MODES:
        if mode.name.lower() == name:
            return mode
    raise ParameterError(f"batch_mode: only {served_modes()} is served, not {name!r}")


def _task_id(text: str) -> TaskId:
    try:
        return TaskId.parse(text)
    except DecodeError as error:
        raise ParameterError(f"id: {error}") from error


def collector_config_from_text(text: str) -> HpkeConfig:
    """Return the configuration that `collector_hpke_config` has, or raise `ParameterError`."""
    try:
        return decode(HpkeConfig, decode_base64url(text))
    except DecodeError as error:
        raise ParameterError(f"collector_hpke_config: {error}") from error


def _check_configuration(text: str, task: Task) -> None:
    if text != encode_base64url(task.configuration_bytes):
        raise ParameterError(
            "configuration: is not the encoding of the other settings, so one of them was changed "
            "later"
        )
