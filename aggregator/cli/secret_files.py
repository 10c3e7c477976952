"""Secrets that lie in files of their own, made once and readable by their owner only."""

import os
from pathlib import Path

from aggregator.errors import ConfigurationError

_SECRET_MODE = 0o600


def read_secret(path: Path) -> str | None:
    """Return what the file holds, or None if there is none.

    Raises:
        ConfigurationError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the secret in {path} cannot be read") from error


def create_secret(path: Path, secret: str) -> str:
    """Write a new secret, whole or not at all; one that another process has just written wins.

    Returns:
        What the file holds now.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(
            os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _SECRET_MODE), "w"
        ) as file:
            file.write(secret + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            secret = read_secret(path) or secret
        draft.unlink()
    except OSError as error:
        raise ConfigurationError(f"the secret in {path}: {error.strerror}") from error
    return secret
