"""A task of attribution is known by two extensions of its configuration, each a host as it came."""

import dataclasses
from operator import lt

import pytest

from aggregator.dap.attribution import Attribution
from aggregator.dap.extensions import Extension
from aggregator.dap.profile import CODE_POINTS, BatchMode
from aggregator.dap.task import task_extensions
from aggregator.errors import ParameterError

SHOP = Attribution("measures.example", "shop.example")


def test_code_points_differ_and_are_at_the_end_of_their_ranges() -> None:
    mode, *extensions = dataclasses.astuple(CODE_POINTS)
    assert 0xF0 <= mode <= 0xFF
    assert mode not in {BatchMode.TIME_INTERVAL, BatchMode.LEADER_SELECTED}
    assert all(0xFF00 <= kind <= 0xFFFF for kind in extensions)
    assert all(map(lt, extensions, extensions[1:]))


@pytest.mark.parametrize(
    "hosts", [("a", "a"), ("[::1]", "xn--bcher-kva.example"), ("A.", "b" * 253)]
)
def test_both_hosts_come_back_as_they_were_sent(hosts: tuple[str, str]) -> None:
    extensions = task_extensions(privacy=b"policy", attribution=Attribution(*hosts))
    assert [kind for kind, _ in extensions] == [0xFF50, 0xFF60, 0xFF61]
    assert [data for _, data in extensions[1:]] == [host.encode() for host in hosts]
    assert Attribution.of(extensions) == Attribution(*hosts)


def test_a_task_that_names_neither_host_is_none_of_attribution() -> None:
    assert Attribution.of(task_extensions(privacy=b"policy")) is None


@pytest.mark.parametrize("missing", [0, 1])
def test_one_host_alone_is_refused(missing: int) -> None:
    with pytest.raises(ParameterError, match="needs both"):
        Attribution.of([SHOP.extensions[1 - missing]])


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("data", [b"", b"a b", b"a\n", b"a\0", "ü".encode(), b"\xff", b"a" * 254])
def test_what_is_no_host_is_refused_by_name(place: int, data: bytes) -> None:
    extensions = list(SHOP.extensions)
    extensions[place] = Extension(extensions[place].extension_type, data)
    named = ("collector_identity", "budget_source")[place]
    with pytest.raises(ParameterError, match=rf"^attribution\.{named}: must be a host"):
        Attribution.of(extensions)
