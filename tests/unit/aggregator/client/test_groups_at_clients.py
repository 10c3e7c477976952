"""Ledgers count one place of a group, so no client of ours sends for a person to several."""

from contextlib import closing
from pathlib import Path

import pytest

from aggregator.client import AlreadyAnswered, Client, Outbox, Reporter
from aggregator.errors import ParameterError
from tests.support.tasks import LAPLACE, make_task
from tests.support.told_leader import ToldLeader

UNRELATED = [
    make_task(
        privacy={**LAPLACE, "group": "an income, an illness", "group_place": place},
        id="AE"[place] * 42 + "A",
    )
    for place in range(2)
]
"""Of a designer who wants several reports of each person, and to have one of them counted."""

NOBODY_IS_KEPT = "group: the task has place 1 .* this client keeps nobody to one"


def test_a_client_takes_no_report_of_a_group_unless_a_person_is_kept_to_one_place(
    tmp_path: Path,
) -> None:
    leader = ToldLeader()
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        with pytest.raises(ParameterError, match=NOBODY_IS_KEPT):
            Client(UNRELATED[1], outbox, sender=leader).upload([1])
        assert leader.posts == []
        Client(UNRELATED[1], outbox, sender=leader).upload([1], person="17")
        with pytest.raises(AlreadyAnswered, match="in place 1 of 'an income, an illness'"):
            Client(UNRELATED[0], outbox, sender=leader).upload([1], person="17")
        Client(UNRELATED[1], sender=leader, keeps_places=True).upload([1])
    assert len(leader.posts) == 2


def test_an_applications_client_takes_none_of_an_unnamed_person(tmp_path: Path) -> None:
    with closing(Outbox(tmp_path / "outbox.sqlite")) as outbox:
        reporter = Reporter(UNRELATED[1], outbox, sender=ToldLeader())
        with pytest.raises(ParameterError, match=NOBODY_IS_KEPT):
            reporter.put(1, claim="17")
        reporter.put(1, person="17")
        assert reporter.waiting() == 1
