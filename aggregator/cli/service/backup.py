"""`prio backup`: a copy of a party's store, made while the store is in use."""

from pathlib import Path
from typing import Annotated

import typer

from aggregator.cli.options import Config
from aggregator.errors import StoreError


def backup(
    file: Annotated[Path, typer.Argument(help="The file to write, which must not exist yet.")],
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Instead, read the whole of an existing backup, and say whether it can be used.",
        ),
    ] = False,
    config: Config = None,
) -> None:
    """Copy this party's store to a file while it is used, without a key, or check such a file."""
    from aggregator.service.config import read_settings
    from aggregator.service.storage.backup.backup import back_up, check_backup
    from aggregator.service.storage.opening import crypter_of

    settings = read_settings(config)
    if not check:
        back_up(settings.database_url, file)
        print(f"{file}: {file.stat().st_size:,} bytes; keep the store key elsewhere")
        return
    found = check_backup(settings.database_url, file, settings.role, crypter_of(settings))
    roles = ", ".join(sorted(found.roles)) or "no party yet"
    print(f"{file}: schema {found.version}, tasks of {roles}, {found.secrets:,} secrets")
    if found.faults:
        raise StoreError(f"backup {file}: {'; '.join(found.faults)}")
