"""Makes empty stores by copying one that was migrated once: migrations dominate small tests."""

import functools
import tempfile
from pathlib import Path

from aggregator.storage.schema import make


def upgraded(url: str) -> None:
    """Do what `make` does, by a copy if there is no file yet."""
    path = Path(url.removeprefix("sqlite:///"))
    if path.exists():
        make(url)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_bytes(_migrated())


@functools.cache
def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "empty.sqlite"
        make(f"sqlite:///{path}")
        assert not path.with_name("empty.sqlite-wal").exists(), "closing a store empties its log"
        return path.read_bytes()
