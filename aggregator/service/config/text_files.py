"""Reads text files as editors of any system save them, up to a size that no person writes."""

import io
import sys
from pathlib import Path

from aggregator.errors import ConfigurationError

MOST_BYTES = 64 * 2**20
"""The most bytes of a file, so that one that never ends, such as a device, gives an error."""


def read_bytes(file: Path) -> bytes:
    """Return the content of a file, or of standard input for `-`.

    Raises OSError, or `ConfigurationError` if it holds more than `MOST_BYTES`.
    """
    if str(file) == "-":
        content = sys.stdin.buffer.read(MOST_BYTES + 1)
    else:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ConfigurationError(f"{file}: must not hold more than {MOST_BYTES:,} bytes")
    return content


def read_text(file: Path) -> str:
    r"""Return the content as text, with lines that end in \n and without a byte order mark.

    Raises:
        ConfigurationError, OSError: See `read_bytes`; or it is not UTF-8.
    """
    try:
        return io.TextIOWrapper(io.BytesIO(read_bytes(file)), encoding="utf-8-sig").read()
    except UnicodeDecodeError:
        # `from None`: the cause contains the bytes, which may be a secret.
        raise ConfigurationError(f"{file}: is not UTF-8 text") from None
