"""Files that are made once, whole or not at all, and are their owner's alone: those of secrets."""

import os
import tempfile
from pathlib import Path

from aggregator.errors import ConfigurationError
from aggregator.service.config import check_private


def read_secret(path: Path) -> str | None:
    """Return what the file holds, or None if it does not exist.

    Raises:
        ConfigurationError: The file cannot be read, or is readable by others than its owner.
    """
    try:
        check_private(path)
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the secret in {path} cannot be read") from error


def create_secret(path: Path, secret: str) -> str:
    """Write a new secret, whole or not at all, unless another process has just written one.

    Returns:
        What the file holds now.

    Raises:
        ConfigurationError: The file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        is_ours = create_private(path, secret + "\n")
    except OSError as error:
        raise ConfigurationError(f"the secret in {path}: {error.strerror}") from error
    return secret if is_ours else read_secret(path) or secret


def create_private(path: Path, text: str) -> bool:
    """Write a new file that is its owner's alone, whole or not at all.

    Returns:
        Whether it was written; not if there is one.

    Raises:
        OSError: It cannot be written.
    """
    # A random name, 0600 from the start: in two containers processes may share a number.
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        _keep_entries(path.parent)
    except FileExistsError:
        return False
    finally:
        Path(draft).unlink()
    return True


def _keep_entries(folder: Path) -> None:
    """Make the names in a folder survive a power cut, as the store's rows do."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
