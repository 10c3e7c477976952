"""Reads a service's settings: a TOML file, overridden by the environment.

The file is optional. Relative paths in it are relative to its folder.
"""

import json
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from aggregator.errors import ConfigurationError
from aggregator.protocol.task_documents import place_in_text
from aggregator.service.config.aggregator_settings import HelperSettings, LeaderSettings
from aggregator.service.config.collector_settings import CollectorSettings
from aggregator.service.config.faults import in_words, place_of
from aggregator.service.config.plain_files import NotPlain, check_plain
from aggregator.service.config.tables import SCHEDULE, TABLES, TUNING, table_of
from aggregator.service.config.text_files import read_text
from aggregator.untrusted_text import meant

AnySettings = LeaderSettings | HelperSettings | CollectorSettings
S = TypeVar("S", LeaderSettings, HelperSettings, CollectorSettings)

_PASSWORD = re.compile(r"://[^@]*:[^@]*@|://.*[?&]password=")
"""Matches a URL with a password: before the host or, as PostgreSQL allows, as a parameter."""

_ROLES: dict[str, type[LeaderSettings] | type[HelperSettings] | type[CollectorSettings]] = {
    "leader": LeaderSettings,
    "helper": HelperSettings,
    "collector": CollectorSettings,
}


def read_settings(path: Path | None) -> AnySettings:
    """Read the settings of any party, from a file if one is named, and the environment.

    Raises a `ConfigurationError` that names every faulty setting.
    """
    values = {} if path is None else _read_toml(path)
    place = "the environment" if path is None else str(path)
    role = os.environ.get("PRIO_ROLE", values.get("role"))
    if not isinstance(role, str) or role not in _ROLES:
        hint = " (PRIO_ROLE; or give a file with --config)" if path is None else ""
        raise ConfigurationError(
            f"{place}: role must be one of {', '.join(_ROLES)}, not {role!r}{hint}"
        )
    return _validated(_ROLES[role], values, place)


_PATHS = (
    *("database", "store_key_file", "token_file", "release_journal", "in_band_tasks"),
    *("tls_certificate", "tls_key", "client_ca", "peer_ca", "client_certificate", "client_key"),
)
"""Settings that name files, relative to the service file's folder unless absolute."""


def read_settings_of(kind: type[S], path: Path | None) -> S:
    """Read one party's settings; raises as `read_settings`, or if they are another party's."""
    settings = read_settings(path)
    if not isinstance(settings, kind):
        place = "the environment" if path is None else path
        wanted = next(role for role, each in _ROLES.items() if each is kind)
        raise ConfigurationError(
            f"{place}: has the {settings.role}'s settings; give the {wanted}'s file"
        )
    return settings


def check_private(path: Path) -> None:
    """Refuse, as `ConfigurationError`, a file of secrets that others can read or write."""
    try:
        check_plain(path)
    except NotPlain as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from None
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigurationError(
            f"{path}: holds a secret, and its mode {mode:04o} lets others read or write it; "
            f"chmod 600 {path}"
        )


def _read_toml(path: Path) -> dict[str, object]:
    try:
        values: dict[str, object] = tomllib.loads(read_text(path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also for numbers too long, lists too deep
        # `from None`: the cause may contain a line with a secret.
        raise ConfigurationError(f"{path}: not TOML{place_in_text(str(error))}") from None
    if not values.keys() & TABLES.keys() and values.keys() & {"collector_hpke_config", "task"}:
        raise ConfigurationError(f"{path}: this is a task's file, and a service's is needed")
    values = _without_tables(values, path)
    if _has_secret(values):
        check_private(path)
    for name in _PATHS:
        value = values.get(name)
        if isinstance(value, str) and "://" not in value:
            values[name] = str(path.parent.absolute() / value)
    return values


def _without_tables(values: Mapping[str, object], path: Path) -> dict[str, object]:
    """Return the settings in a file's tables by their names alone, which no two tables share.

    Other names are returned as they are. Raises a `ConfigurationError` for a setting that is in
    another place than its own.
    """
    found: dict[str, object] = {}
    for table, inside in values.items():
        if table not in (*TABLES, TUNING):
            own = table_of(table)
            if own is not None:
                raise ConfigurationError(
                    f"{path}: {table}: belongs in [{own}], not before the first table"
                )
            found[table] = inside
            continue
        if not isinstance(inside, dict):
            raise ConfigurationError(f"{path}: {table}: must be a table, [{table}]")
        for name, value in inside.items():
            own = table_of(name)
            if own not in (None, table):
                raise ConfigurationError(f"{path}: {name}: belongs in [{own}], not in [{table}]")
            if own is None and name in (*TABLES, TUNING, SCHEDULE):
                own = f"[[{name}]]" if name == SCHEDULE else f"[{name}]"
                raise ConfigurationError(
                    f"{path}: {name}: belongs in a table of its own, {own}, not in [{table}]"
                )
            found[name] = value
    return found


def _has_secret(values: Mapping[str, object]) -> bool:
    """Return whether a service file contains a key, a token, or a URL with a password."""
    schedules = values.get(SCHEDULE)
    tables = [values, *(schedules if isinstance(schedules, list) else [])]
    return any(
        name in ("store_key", "token", "webhook_token")
        or (isinstance(value, str) and _PASSWORD.search(value) is not None)
        for table in tables
        if isinstance(table, dict)
        for name, value in table.items()
    )


def _from_environment(kind: type[BaseModel], place: str) -> dict[str, object]:
    """Return a party's settings from the environment: `PRIO_` and the name in capitals."""
    given = {name.upper(): value for name, value in os.environ.items()}
    values: dict[str, object] = {
        name: given[f"PRIO_{name.upper()}"]
        for name in kind.model_fields
        if f"PRIO_{name.upper()}" in given
    }
    schedule = values.get(SCHEDULE)
    if isinstance(schedule, str):  # the one setting that is a list
        try:
            values[SCHEDULE] = json.loads(schedule)
        except ValueError:
            # `from None`: the cause may contain a token.
            raise ConfigurationError(f"{place}: PRIO_SCHEDULE: not JSON") from None
    return values


def _validated(
    kind: type[LeaderSettings] | type[HelperSettings] | type[CollectorSettings],
    values: dict[str, object],
    place: str,
) -> AnySettings:
    try:
        return kind(**(values | _from_environment(kind, place)))  # type: ignore[arg-type]  # values are checked by the model
    except ValidationError as error:
        # Not `error` as the cause: it shows values, which may be secrets.
        faults = "; ".join(_fault(kind, each) for each in error.errors(include_url=False))
        raise ConfigurationError(f"{place}: {faults}") from None


def _fault(kind: type[BaseModel], fault: ErrorDetails) -> str:
    """Return what is wrong with one setting, and which variable set it if it was one."""
    name = place_of(fault["loc"])
    if fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1:
        return f"{name}: {_unknown(kind, name)}"
    variable = f"PRIO_{str(fault['loc'][0]).upper()}" if fault["loc"] else ""
    is_set = variable in {each.upper() for each in os.environ}
    return ": ".join(filter(None, (f"{name} ({variable})" if is_set else name, in_words(fault))))


def _unknown(kind: type[BaseModel], name: str) -> str:
    owners = [role for role, other in _ROLES.items() if name in other.model_fields]
    if owners:
        return f"is a setting of a {' or a '.join(owners)} only; remove it"
    return f"no such setting{meant(name, [*kind.model_fields, *TABLES, TUNING])}"
