"""Files of secrets: created once, whole or not at all, and accessible only to their owner.

What must survive a power cut is written and synced with `write_at` and `sync_path`.
"""

import os
import tempfile
from pathlib import Path

from aggregator.errors import ConfigurationError
from aggregator.service.config import check_private, read_plain


def read_secret(path: Path) -> str | None:
    """Return what the file holds, or None if it does not exist.

    Raises:
        ConfigurationError: The file cannot be read, or others than its owner can access it.
    """
    try:
        check_private(path)
        return read_plain(path).decode("ascii").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(
            f"the secret in {path} cannot be read: {error.strerror}"
        ) from error
    except UnicodeDecodeError:  # `from None`: the cause has the secret
        raise ConfigurationError(
            f"the secret in {path} cannot be read: it is damaged, and no text: restore it"
        ) from None


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
    """Write a new file that only its owner can access, whole or not at all.

    Returns:
        Whether it was written; False if the file exists already.

    Raises:
        OSError: It cannot be written.
    """
    # A random name, since processes of two containers may share a number; 0600 from the start.
    descriptor, draft = tempfile.mkstemp(prefix=f"{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
        sync_path(path.parent)
    except FileExistsError:
        return False
    finally:
        Path(draft).unlink()
    return True


def sync_path(path: Path) -> None:
    """Sync a file, or a folder, so that new names in it survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_at(descriptor: int, place: int, content: bytes) -> None:
    """Write all of `content` from `place` on."""
    while content:
        written = os.pwrite(descriptor, content, place)
        content, place = content[written:], place + written
