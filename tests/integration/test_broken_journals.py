"""A leader's journal of releases broken in each way, by docs/operations/troubleshoot.md.

Reports are taken and aggregated meanwhile, no share leaves, the message names a command, and with
that command the pair serves again and has lost nothing.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from anyio import to_thread
from structlog.testing import capture_logs

from aggregator.service.storage.backup import reconciliation
from aggregator.service.storage.engine.states import LedgerState
from aggregator.service.storage.ledger.charges import list_ledger
from aggregator.service.storage.ledger.journal import JournalError
from tests.support.commands import Done, run_here
from tests.support.pair import LEASE_SECONDS, Pair, leader_file
from tests.support.tasks import LAPLACE, make_task

MEASUREMENTS = [0, 1, 1, 3, 3, 3]
HOUR = 3600


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """Return a pair that has released two batches."""
    pair = Pair(tmp_path, make_task(privacy=LAPLACE))
    await pair.provision()
    for _ in range(2):
        await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
        await pair.collect(pair.interval(pair.clock.now()))
        pair.clock.advance(HOUR)
    yield pair
    await pair.close()


def change_a_digit(content: bytes, before: bytes) -> bytes:
    """Return the content with another digit behind the last `before`."""
    place = content.rindex(before) + len(before)
    digit = b"1" if content[place : place + 1] == b"0" else b"0"
    return content[:place] + digit + content[place + 1 :]


BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "a byte of a line": lambda content: content.replace(b'"batch"', b'"botch"', 1),
    "a byte of the last share's hash": lambda content: change_a_digit(content, b'"share":"'),
    "a byte of the first line": lambda content: b"?" + content[1:],
    "a first line that does not say whose it is": lambda content: (
        b"prio journal of releases, version 1\n" + content.partition(b"\n")[2]
    ),
    "zeros": lambda content: content[:-200] + bytes(200) + b"\n",
}


async def prio(*arguments: str | Path) -> Done:
    return await to_thread.run_sync(lambda: run_here(*arguments))


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
async def test_a_damaged_journal_holds_shares_back_and_nothing_else_until_it_is_mended(
    pair: Pair, tmp_path: Path, change: Callable[[bytes], bytes]
) -> None:
    journal, config = tmp_path / "leader.sqlite.journal", leader_file(tmp_path)
    before = journal.read_bytes()
    journal.write_bytes(change(before))
    pair.leader.restart()
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    await pair.work_until_idle()
    location = (await pair.ask(pair.interval(pair.clock.now()))).headers["location"]
    await pair.work_until_idle()
    assert (await pair.poll(location)).status == 503

    said = await prio("status", "--config", config)
    assert said.returncode == 1
    assert "no result leaves" in said.stdout
    assert "`prio store after-restore --journal-damaged` mends it" in said.stdout
    plain = await prio("store", "after-restore", "--config", config, "--backup-time", "2026-11-02")
    assert plain.returncode == 2
    with patch.object(reconciliation, "log") as told:
        mended = await prio("store", "after-restore", "--config", config, "--journal-damaged")
    assert (mended.returncode, mended.stderr) == (0, ""), mended
    assert "releases kept" in mended.stdout
    told.error.assert_not_called()  # nothing is wrong any more

    pair.clock.advance(LEASE_SECONDS)  # the running leader takes the rebuilt file as it is
    await pair.work_until_idle()
    answer = await pair.poll(location)
    result = pair.open(answer.body, pair.interval(pair.clock.now() - LEASE_SECONDS))
    assert result.report_count == len(MEASUREMENTS)
    assert sorted(journal.read_bytes().splitlines()) >= sorted(before.splitlines())[:1]
    assert len(pair.leader.journal.releases()) == 3
    entries = await pair.leader.database.read("ledger", list_ledger)
    assert [each.state for each in entries] == [LedgerState.CHARGED] * 3


@pytest.mark.parametrize("content", [None, b""], ids=["gone", "empty"])
async def test_a_lost_journal_is_made_anew_from_a_store_that_is_whole(
    pair: Pair, tmp_path: Path, content: bytes | None
) -> None:
    journal, config = tmp_path / "leader.sqlite.journal", leader_file(tmp_path)
    before = journal.read_bytes()
    journal.unlink() if content is None else journal.write_bytes(content)
    with pytest.raises(JournalError, match="prio store after-restore --journal-damaged"):
        pair.leader.restart()
    said = await prio("status", "--config", config)
    assert said.returncode == 2  # with which the service ends too, and is not started again
    assert "prio store after-restore --journal-damaged" in said.stderr
    mended = await prio("store", "after-restore", "--config", config, "--journal-damaged")
    assert mended.returncode == 0, mended
    assert journal.read_bytes() == before
    pair.leader.start()
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    result = await pair.collect(pair.interval(pair.clock.now()))
    assert result.report_count == len(MEASUREMENTS)


async def test_a_journal_that_lost_its_end_is_healed_and_the_operator_is_told(
    pair: Pair, tmp_path: Path
) -> None:
    journal = tmp_path / "leader.sqlite.journal"
    before = journal.read_bytes()
    journal.write_bytes(b"".join(before.splitlines(keepends=True)[:-1]))
    with capture_logs() as lines:
        pair.leader.restart()
    assert any("the journal has lost its end" in each["event"] for each in lines)
    assert journal.read_bytes() == before


async def test_the_other_party_s_journal_is_called_that_until_the_own_one_is_back(
    pair: Pair, tmp_path: Path
) -> None:
    journal, config = tmp_path / "leader.sqlite.journal", leader_file(tmp_path)
    theirs = (tmp_path / "helper.sqlite.journal").read_bytes()
    ours = journal.read_bytes()
    journal.write_bytes(theirs)
    pair.leader.restart()
    await pair.upload(await pair.reports(MEASUREMENTS, pair.clock.now()))
    location = (await pair.ask(pair.interval(pair.clock.now()))).headers["location"]
    await pair.work_until_idle()
    assert (await pair.poll(location)).status == 503
    said = await prio("status", "--config", config)
    assert said.returncode == 1
    assert f"no result leaves: the journal of releases {journal} is that of the helper's" in (
        said.stdout
    )
    mended = await prio("store", "after-restore", "--config", config, "--journal-damaged")
    assert (mended.returncode, "is that of the helper's" in mended.stderr) == (2, True), mended
    assert journal.read_bytes() == theirs

    journal.write_bytes(ours)
    pair.clock.advance(LEASE_SECONDS)
    await pair.work_until_idle()
    result = pair.open(
        (await pair.poll(location)).body, pair.interval(pair.clock.now() - LEASE_SECONDS)
    )
    assert result.report_count == len(MEASUREMENTS)
    assert journal.read_bytes().startswith(ours)


@pytest.mark.usefixtures("pair")
async def test_a_journal_that_is_lost_behind_another_one_is_written_again(tmp_path: Path) -> None:
    journal, config = tmp_path / "leader.sqlite.journal", leader_file(tmp_path)
    ours = journal.read_bytes()
    journal.write_bytes((tmp_path / "helper.sqlite.journal").read_bytes())
    journal.rename(tmp_path / "away")
    mended = await prio("store", "after-restore", "--config", config, "--journal-damaged")
    assert mended.returncode == 0, mended
    assert journal.read_bytes() == ours
