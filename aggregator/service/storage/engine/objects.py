"""Object storage: S3 and compatible services, Google's, Azure's, or a folder.

An object is written once, under a name drawn for it, and read back, before the transaction that
names it commits, and deleted by its name when no row names it any more. Nothing is ever listed:
several stores may share a bucket. Credentials must allow put, get and delete; and on S3 list, for
it tells nobody else that an object is gone ("GetObject", permissions). Objects that a killed
process has put and not committed stay until a rule of the bucket, or the operator, deletes what is
older than any report that waits.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from aggregator.errors import ConfigurationError, StoreError
from aggregator.service.config import NotPlain, open_plain
from aggregator.service.storage.engine.backends import DiskFull, Unreachable
from aggregator.service.storage.secrets.files import sync_path

if TYPE_CHECKING:
    from obstore.store import ObjectStore

T = TypeVar("T")
S = TypeVar("S")

LEAST_BYTES = 32 * 2**10
"""A smaller body stays in the database: a request of its own would cost more than it saves."""

NAME_SIZE = 16
"""Bytes of an object's name."""

_AT_ONCE = 16
_TIMEOUT = timedelta(seconds=10)
_RETRIES = 2
_PROBE = b"\0" * 16
_NO_OBJECT = b""
"""What a place returns instead of what cannot be an object of ours, which are never empty."""


class _Place(Protocol):
    """A place that holds objects; its methods are called from several threads.

    It `may_be_covered` if what is put may land elsewhere unnoticed: in the empty folder on which a
    disk should be mounted. Getting an object costs next to nothing there.
    """

    name: str
    may_be_covered: bool

    def put(self, name: str, content: bytes) -> None:
        """Store an object; it survives a power cut when this returns."""

    def get(self, name: str, most: int) -> bytes | None:
        """Return what lies under a name, None if there is nothing.

        Of what has more than `most` bytes, or is no object, anything else may be returned.
        """

    def delete(self, names: Sequence[str]) -> None:
        """Delete those of the named objects that exist."""


class Objects:
    """The objects of one store, many at once, by names of 16 random bytes.

    Attributes:
        fault: Why the last attempt to put or get some failed, if it did.
    """

    def __init__(self, place: _Place) -> None:
        """Use `objects_at`, which makes the place of a URL."""
        self.fault: str | None = None
        self._place = place
        self._threads = ThreadPoolExecutor(_AT_ONCE, "object storage")
        self._trying: Future[None] | None = None
        self._witness: bytes | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return self._place.name

    def put(self, contents: Mapping[bytes, bytes]) -> None:
        """Store objects, and see that they are stored; on failure, try to delete them again.

        A storage that answers before it has stored an object, or stores half of it, is found out
        here, where the upload can still be refused.

        Raises:
            Unreachable: One could not be stored, or not where the object of `know_place` is.
        """
        try:
            with self._noting_faults():
                # Before as well: the disk may be mounted again after the put and before the check.
                self._check_cover()
                self._all(lambda each: self._put(*each), contents.items())
                self._check_cover()
        except BaseException:
            self.try_delete(contents)
            raise

    def _put(self, name: bytes, content: bytes) -> None:
        self._place.put(name.hex(), content)
        if self._place.get(name.hex(), len(content)) != content:
            self._check_cover()
            raise Unreachable(
                f"object storage {self.name}: does not return what was put there a moment ago"
            )

    def get(self, names: Iterable[bytes], most: int) -> dict[bytes, bytes]:
        """Return what there is under the names, which may be anything; compare it.

        Args:
            names: The names.
            most: How many bytes their objects have at most; hardly more is read of any.

        Raises:
            Unreachable: We cannot tell whether an object exists; also when the place does not even
                have the object of `know_place`: a bucket that was deleted, or a disk that is no
                longer mounted, has lost nothing of ours.
        """
        some = list(names)
        with self._noting_faults():
            found = self._all(lambda name: self._place.get(name.hex(), most), some)
            if None in found:
                self._check_place()
        return {name: body for name, body in zip(some, found, strict=True) if body is not None}

    def wrong(self, right: Mapping[bytes, Callable[[bytes], bool]], most: int) -> set[bytes]:
        """Return those of the named objects that are not what they should be.

        Args:
            right: By its name, whether what there is is the object. Few are in memory at once.
            most: As for `get`.

        Raises:
            Unreachable: We cannot tell whether an object exists.
        """

        def is_wrong(name: bytes) -> bool:
            found = self._place.get(name.hex(), most)
            return found is None or not right[name](found)

        with self._noting_faults():
            wrong = self._all(is_wrong, right)
        return {name for name, each in zip(right, wrong, strict=True) if each}

    def delete(self, names: Iterable[bytes]) -> None:
        """Delete objects.

        Raises:
            Unreachable: One could not be deleted.
        """
        self._place.delete([name.hex() for name in names])

    def try_delete(self, names: Iterable[bytes]) -> None:
        """Delete objects that no row names; best effort."""
        with suppress(StoreError):
            self.delete(names)

    def prove(self) -> None:
        """Put an object, get it, delete it, and ask for it once more.

        Raises:
            ConfigurationError: One of these fails.
        """
        name = os.urandom(NAME_SIZE)
        try:
            self.put({name: _PROBE})
            found = self.get([name], len(_PROBE))
            self.delete([name])
        except StoreError as error:
            raise ConfigurationError(f"report_bodies: {error}") from error
        if found != {name: _PROBE}:
            raise ConfigurationError(f"report_bodies: {self.name} does not return what was put")
        try:
            self.get([name], len(_PROBE))
        except StoreError as error:
            # As if the storage were away: jobs would wait for ever for an object that is gone.
            raise ConfigurationError(
                f"report_bodies: {error}; the leader asked for an object that does not exist, and "
                "the answer must say so: on S3, grant s3:ListBucket"
            ) from error

    def know_place(self) -> None:
        """Keep an object there until `close`: a place without it is not the one we know.

        Each call puts a new one instead of the last, which a bucket's rule would delete as old.

        Raises:
            Unreachable: It could not be stored.
        """
        if self._is_elsewhere():
            return
        before, witness = self._witness, os.urandom(NAME_SIZE)
        self.put({witness: _PROBE})
        self._witness = witness
        if before is not None:
            self.try_delete([before])

    def _check_cover(self) -> None:
        if self._place.may_be_covered:
            self._check_place()

    def _check_place(self) -> None:
        if self._is_elsewhere():
            raise Unreachable(
                f"object storage {self.name}: has nothing any more of what was put there, so no "
                "report is taken for lost, and none is put there: is it the same bucket, or the "
                "disk still there? If it was deleted, stop the leader, and give up what waits with "
                "`prio store give-up-bodies`"
            )

    def _is_elsewhere(self) -> bool:
        """Return whether the place has lost the object of `know_place`."""
        witness = self._witness
        is_gone = witness is not None and self._place.get(witness.hex(), len(_PROBE)) is None
        return is_gone and witness is self._witness  # or else another was put meanwhile

    def try_again(self) -> None:
        """Begin to find out whether it can be used by now, unless that is under way.

        Bodies that are large enough to be put are rare: without this, `fault` might stay for hours.
        """
        if self._trying is None or self._trying.done():
            with suppress(RuntimeError):  # it was closed meanwhile
                self._trying = self._threads.submit(self._try)

    def _try(self) -> None:
        with suppress(ConfigurationError):
            self.prove()

    def close(self) -> None:
        """Wait for requests under way, and end the threads."""
        self._threads.shutdown()
        if self._witness and self.fault is None:  # if it is away, we would wait for it
            self.try_delete([self._witness])

    def _all(self, work: Callable[[S], T], each: Iterable[S]) -> list[T]:
        """Return the result for each; if one fails, raise when none is under way any more."""
        some = list(each)
        if len(some) == 1:
            return [work(some[0])]
        running = [self._threads.submit(work, one) for one in some]
        wait(running, return_when=FIRST_EXCEPTION)
        wait([one for one in running if not one.cancel()])
        return [
            one.result() for one in running
        ]  # those that were cancelled come after one that failed

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            self.fault = str(error)
            raise
        self.fault = None


class _Folder:
    """Files on a disk of this machine, or one that several machines share."""

    may_be_covered = True

    def __init__(self, path: Path) -> None:
        self.name = f"folder {path}"
        self._path = path

    def put(self, name: str, content: bytes) -> None:
        whole, part = self._path / name, self._path / f"{name}.part"
        with _as_our_errors(self.name, OSError):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(part, "xb", opener=_owner_only) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            part.rename(whole)
            sync_path(self._path)

    def get(self, name: str, most: int) -> bytes | None:
        with _as_our_errors(self.name, OSError):
            try:
                descriptor = open_plain(self._path / name, os.O_RDONLY)
            except FileNotFoundError:
                return None
            except NotPlain:  # a directory, or a FIFO, which would never end
                return _NO_OBJECT
            with os.fdopen(descriptor, "rb") as file:
                return file.read(most + 1)

    def delete(self, names: Sequence[str]) -> None:
        with _as_our_errors(self.name, OSError):
            for name in names:
                (self._path / name).unlink(missing_ok=True)
                (self._path / f"{name}.part").unlink(missing_ok=True)


class _Remote:
    """A bucket; its address and our credentials come from its own tools' environment variables."""

    may_be_covered = False

    def __init__(self, url: str) -> None:
        try:
            from obstore.exceptions import BaseError
            from obstore.store import from_url
        except ImportError:
            raise ConfigurationError(
                f"report_bodies: {url} needs the extra `objects`: "
                "pip install 'prio-aggregator[objects]'"
            ) from None
        self.name = url.rstrip("/")
        self._failures = (BaseError, OSError)
        with _as_our_errors(url, BaseError, ValueError):
            self._store: ObjectStore = from_url(
                url,
                client_options={
                    "timeout": _TIMEOUT,
                    "connect_timeout": _TIMEOUT,
                    # An option given here overrides the environment, so we read the variable.
                    "allow_http": os.environ.get("AWS_ALLOW_HTTP", "").lower() == "true",
                },
                retry_config={"max_retries": _RETRIES, "retry_timeout": _TIMEOUT},
            )

    def put(self, name: str, content: bytes) -> None:
        import obstore

        with _as_our_errors(self.name, *self._failures):
            obstore.put(self._store, name, content)

    def get(self, name: str, most: int) -> bytes | None:
        import obstore

        with _as_our_errors(self.name, *self._failures):
            try:
                found = obstore.get(self._store, name)
                # Its head says how many bytes come; none is read yet.
                return _NO_OBJECT if found.meta["size"] > most else bytes(found.bytes())
            except FileNotFoundError:
                return None

    def delete(self, names: Sequence[str]) -> None:
        import obstore

        with _as_our_errors(self.name, *self._failures):
            try:
                obstore.delete(self._store, names)
            except FileNotFoundError:  # one of them was gone; the others' outcome is unknown
                for name in names:
                    with suppress(FileNotFoundError):
                        obstore.delete(self._store, name)


def objects_at(url: str) -> Objects:
    """Return the object storage at `file:///folder`, or `s3://`, `gs://` or `az://bucket/folder`.

    Raises:
        ConfigurationError: There is no such kind, or its library is not installed.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        return Objects(_Folder(Path(unquote(parts.path))))
    return Objects(_Remote(url))


@contextmanager
def _as_our_errors(name: str, *failures: type[Exception]) -> Iterator[None]:
    """Raise our error with one line; the libraries' messages run to pages and name addresses."""
    try:
        yield
    except failures as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(f"object storage {name}: the disk is full") from None
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise Unreachable(f"object storage {name}: {reason}") from None


def _owner_only(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
