"""The file of an issuer's public keys, which are made before the tasks that have them.

    {"version": 1, "first_window": 2946, "keys": "…"}

Stewards make tasks with it, and applications read it whose language knows no task file.
"""

import json
from typing import Final

from aggregator.errors import ParameterError
from aggregator.protocol.signed_permits import IssuerKeys
from aggregator.protocol.task_documents import NOT_TOML, check_text
from aggregator.protocol.task_file import issuer_keys_from_table, issuer_keys_to_table
from aggregator.protocol.toml_table import TomlTable

ISSUER_KEYS: Final = "issuer-keys.json"
"""What the file is called."""

_VERSION = 1


def issuer_keys_to_json(keys: IssuerKeys) -> str:
    """Return the file of keys."""
    return json.dumps({"version": _VERSION, **issuer_keys_to_table(keys)}) + "\n"


def issuer_keys_from_json(text: str) -> IssuerKeys:
    """Read a file of keys, or raise a `ParameterError` that names the fault."""
    check_text(text, ISSUER_KEYS)
    try:
        read = json.loads(text)
    except NOT_TOML:
        raise ParameterError(f"{ISSUER_KEYS}: not JSON") from None
    table = TomlTable(read if isinstance(read, dict) else {}, "")
    if (version := table.integer("version")) != _VERSION:
        raise ParameterError(f"version: must be {_VERSION}, not {version}")
    keys = issuer_keys_from_table(table)
    table.finish()
    return keys
