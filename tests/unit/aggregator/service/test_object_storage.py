"""Object storage: what is put is there, and what fails is said in one line without a secret."""

import errno
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pydantic import ValidationError

from aggregator.errors import ConfigurationError
from aggregator.service.config import LeaderSettings
from aggregator.service.storage.engine.backends import DiskFull, Unreachable
from aggregator.service.storage.engine.objects import NAME_SIZE, Objects, objects_at
from tests.support.object_server import Bucket, bucket_server
from tests.support.patience import PATIENCE_SECONDS

NAMES = [bytes([number]) * NAME_SIZE for number in range(40)]
CONTENTS = {name: name * 10_000 for name in NAMES}
MOST = 10_000 * NAME_SIZE


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    with bucket_server() as served:
        for name, value in served.environment().items():
            monkeypatch.setenv(name, value)
        yield served


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    if request.param == "bucket":
        request.getfixturevalue("bucket")
    url = f"file://{tmp_path}/new/folder" if request.param == "folder" else "s3://bucket/leader"
    opened = objects_at(url)
    yield opened
    opened.close()


def test_what_is_put_is_returned_until_it_is_deleted(objects: Objects) -> None:
    objects.prove()
    objects.put(CONTENTS)
    assert objects.get(NAMES, MOST) == CONTENTS
    objects.delete(NAMES[:30])
    objects.delete(NAMES[:1])  # once more
    assert objects.get(NAMES, MOST) == {name: CONTENTS[name] for name in NAMES[30:]}
    assert objects.get([], MOST) == {}


@pytest.mark.parametrize("place", ["folder", "bucket"])
def test_of_what_is_larger_than_an_object_hardly_more_is_read(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A page of a gigabyte in the place of 160 kB would fill the memory of a leader."""
    large = bytes(256 * MOST)
    if place == "bucket":
        served = request.getfixturevalue("bucket")
        objects = objects_at("s3://bucket/leader")
        objects.put(CONTENTS)
        served.objects.update(dict.fromkeys(served.objects, large))
    else:
        objects = objects_at(f"file://{tmp_path}")
        for name in NAMES:
            (tmp_path / name.hex()).write_bytes(large[: 2 * MOST])
        os.truncate(tmp_path / NAMES[0].hex(), 2**40)
    tracemalloc.start()
    try:
        found = objects.get(NAMES, MOST)
        assert tracemalloc.get_traced_memory()[1] < 2 * MOST * len(NAMES)
    finally:
        tracemalloc.stop()
        objects.close()
    assert not any(len(each) == MOST for each in found.values())
    assert sum(map(len, found.values())) < 2 * MOST * len(NAMES)


def test_what_is_no_file_is_no_object_and_nobody_waits_for_it(tmp_path: Path) -> None:
    objects = objects_at(f"file://{tmp_path}")
    fifo, directory, nothing, device, whole = (tmp_path / name.hex() for name in NAMES[:5])
    os.mkfifo(fifo)
    directory.mkdir()
    nothing.symlink_to(tmp_path / "away")
    device.symlink_to("/dev/zero")
    whole.write_bytes(b"sealed")
    assert objects.get(NAMES[:6], MOST) == {**dict.fromkeys(NAMES[:4], b""), NAMES[4]: b"sealed"}
    right = dict.fromkeys(NAMES[:6], b"sealed".__eq__)
    assert objects.wrong(right, MOST) == {*NAMES[:4], NAMES[5]}
    assert objects.fault is None
    objects.close()


def test_nobody_but_the_owner_reads_a_folder(tmp_path: Path) -> None:
    objects = objects_at(f"file://{tmp_path}/folder")
    objects.put({NAMES[0]: b"sealed"})
    (file,) = (tmp_path / "folder").iterdir()
    assert file.name == NAMES[0].hex()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    objects.close()


def test_a_folder_on_a_full_disk_says_so_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = objects_at(f"file://{tmp_path}")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DiskFull, match=f"object storage folder {tmp_path}: the disk is full"):
            objects.put(CONTENTS)
    assert list(tmp_path.iterdir()) == []
    assert objects.fault is not None
    objects.put(CONTENTS)
    assert objects.get(NAMES, MOST) == CONTENTS
    assert objects.fault is None
    objects.close()


def test_what_is_being_put_when_another_fails_is_deleted_as_well() -> None:
    """An object of a transaction that is not committed would stay, and nobody would know of it."""
    begun, failed = threading.Event(), threading.Event()

    class Slow:
        name = "slow"
        may_be_covered = False

        def __init__(self) -> None:
            self.there: set[str] = set()

        def put(self, name: str, content: bytes) -> None:
            assert content
            if name == NAMES[0].hex():
                assert begun.wait(PATIENCE_SECONDS)
                failed.set()
                raise Unreachable("away")
            begun.set()
            assert failed.wait(PATIENCE_SECONDS)
            time.sleep(0.05)  # for those that would delete before this is there
            self.there.add(name)

        def get(self, name: str, most: int) -> bytes | None:
            raise AssertionError(name, most)

        def delete(self, names: Sequence[str]) -> None:
            self.there.difference_update(names)

    place = Slow()
    objects = Objects(place)
    with pytest.raises(Unreachable, match="away"):
        objects.put(CONTENTS)
    objects.close()
    assert place.there == set()


@pytest.mark.parametrize("status", [403, 500, 503])
def test_a_bucket_that_refuses_is_asked_a_few_times_and_named_without_a_secret(
    bucket: Bucket, status: int
) -> None:
    objects = objects_at("s3://bucket/leader")
    bucket.status = status
    with pytest.raises(Unreachable, match="object storage s3://bucket/leader: ") as caught:
        objects.get(NAMES[:1], MOST)
    assert len(bucket.requests) == (1 if status == 403 else 3)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert objects.fault == str(caught.value)
    bucket.status = None
    objects.put({NAMES[0]: b"now"})
    assert objects.fault is None
    objects.close()


def test_a_bucket_that_forgets_what_is_put_is_refused_at_the_start(bucket: Bucket) -> None:
    objects = objects_at("s3://bucket/leader")
    bucket.forgets = True
    with pytest.raises(ConfigurationError, match="does not return what was put"):
        objects.prove()
    objects.close()


def test_a_bucket_that_does_not_say_what_is_gone_is_refused_at_the_start(bucket: Bucket) -> None:
    """S3 does so to who may not list: a job with a lost object would wait for ever, not go on."""
    objects = objects_at("s3://bucket/leader")
    bucket.hides = True
    with pytest.raises(ConfigurationError, match="s3:ListBucket"):
        objects.prove()
    objects.close()


def test_a_bucket_where_nobody_listens_is_refused_at_the_start(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert bucket.url
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    objects = objects_at("s3://bucket/leader")
    with pytest.raises(ConfigurationError, match="report_bodies: object storage s3://bucket"):
        objects.prove()
    objects.close()


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://who:secret@bucket/leader", "must have no user, password"),
        ("s3://bucket/leader?versionId=1", "must have no user, password"),
        ("s3:///leader", "must be file:///folder, or s3://"),
        ("https://bucket.example/leader", "must be file:///folder, or s3://"),
        ("file://machine/folder", "must be file:///folder, or s3://"),
        ("reports", "must be file:///folder, or s3://"),
        ("s3://buck et/leader", "must be file:///folder, or s3://"),
        ("s3://bucket/%2e%2e/leader", "must be file:///folder, or s3://"),
        ("gs://-bucket", "must be file:///folder, or s3://"),
        ("file:///a folder", "what else the name of a folder on this machine has is percent-enc"),
    ],
)
def test_another_place_is_refused_without_repeating_a_secret(url: str, reason: str) -> None:
    with pytest.raises(ValidationError, match=f"report_bodies\n.*{reason}") as caught:
        LeaderSettings(database="leader.sqlite", report_bodies=url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"])
def test_a_buckets_address_is_made_like_every_other_url(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for url in ("https://a b/", "https://me:secret@store.example/", "store.example"):
        monkeypatch.setenv(name, url)
        with pytest.raises(
            ValidationError, match=f"report_bodies\n.*{name}: must be http"
        ) as caught:
            LeaderSettings(database="leader.sqlite", report_bodies="s3://bucket/leader")
        assert "secret" not in str(caught.value)
        LeaderSettings(database="leader.sqlite", report_bodies="file:///a%20folder")
    monkeypatch.setenv(name, "http://127.0.0.1:9000")
    LeaderSettings(database="leader.sqlite", report_bodies="s3://bucket/leader")
