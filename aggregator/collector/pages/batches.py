"""The page of a question's batches: how far each has come, why, and what can be done with it."""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from aggregator.codec import decode
from aggregator.collector import store
from aggregator.collector.abandoning import MEANING
from aggregator.collector.early_collection import in_words, loss_in_words
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.readings import SHOWN_WINDOWS, Row
from aggregator.collector.pages.view import View, unbroken
from aggregator.collector.so_far import LeadersWord
from aggregator.collector.store import StoredCollection
from aggregator.dap.messages import CollectionJobReq
from aggregator.dap.problems import InvalidBatchSize
from aggregator.service.storage.engine.states import CollectionState
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.steward.survey import Windows
from aggregator.written_times import Times, counted

ABANDONED = "abandoned"
"""The form field with the id of a collection to give up."""

_SPENT = "each aggregator refuses any further result of this question, so none can be asked for."

_OF_ANSWERS = (
    "Until it is collected its number of answers is the leader's word, counted once an hour and "
    "not told while it is small: a live count would tell when somebody answers. Collecting closes "
    "a batch for good: later reports for its time are refused."
)
_OF_BUNDLES = (
    "Its reports may then be handed in again, with others. A report that is in a result counts in "
    "no other."
)

_COLLECTIONS = 500
"""How many of the newest collections are searched for those of the shown windows."""


class BatchState(StrEnum):
    """How far a batch has come, as a reader is told."""

    OPEN = "open"
    READY = "ready"
    WAITING = "waiting"
    COLLECTED = "collected"
    TOO_FEW = "too few"
    FAILED = "failed"


_MARKS = {
    BatchState.OPEN: "○",
    BatchState.READY: "◐",
    BatchState.WAITING: "…",
    BatchState.COLLECTED: "●",
    BatchState.TOO_FEW: "−",  # noqa: RUF001  a minus, of the others' width
    BatchState.FAILED: "✕",
}
"""Marks of the states, which differ in form as well as in colour."""


@dataclasses.dataclass(frozen=True, slots=True)
class BatchLine:
    """One batch in the list.

    `start` is its first second, 0 while unknown. `why` says what it waits for, or what went wrong;
    `named` names it in a request, and is empty if it cannot be asked for again; `answers` is the
    leader's word, and `said` a sentence of it.
    """

    start: int
    period: str
    state: BatchState
    why: str
    named: Mapping[str, int]
    collection_id: str
    is_over: bool
    answers: int | None = None
    said: str = ""

    @property
    def anchor(self) -> str:
        """The anchor of its line on the page."""
        return f"batch-{self.start}-{self.collection_id}"

    @property
    def row(self) -> Row:
        """The line as a row of a table."""
        return {
            "window": self.period,
            "state": str(self.state),
            "why": self.why,
            "answers_so_far": self.answers,
            **{name: self.named.get(name) for name in ("start", "end")},
            "collection_id": self.collection_id,
        }


def batches(
    tx: Transaction, asked: Asked, csrf: str, leaders_word: LeadersWord, refused: str = ""
) -> View:
    """Return the page of a question's batches, where `refused` says why one was not collected.

    `csrf` is the value that this session's forms carry.
    """
    stored = store.newest_collections(tx, asked.task.task_id.value, _COLLECTIONS)
    made = store.count_collections(tx, asked.task.task_id.value, CollectionState.FINISHED)
    is_spent = asked.most_releases is not None and made >= asked.most_releases
    windows = asked.windows
    if windows is None:
        found = [_line(asked, each, tx.now) for each in stored[:SHOWN_WINDOWS]]
    else:
        added_at = store.task_added_at(tx, asked.task.task_id.value)
        found = list(_of_windows(tx, asked, windows, stored, added_at, leaders_word))
    lines = (
        (
            tag("span", unbroken(line.period), id=line.anchor),
            join(
                (
                    _state_shown(line.state),
                    tag("br"),
                    join((tag("strong", line.said), tag("br"))) if line.said else None,
                    isolated(line.why),
                    _action(asked, line, csrf, is_spent=is_spent),
                )
            ),
        )
        for line in found
    )
    smallest = asked.task.min_batch_size
    takes_bundles = asked.task.batching.collector_selects
    form = _bundle_form if takes_bundles else _free_form
    content = [
        tag("p", tag("a", "The question", href=asked.path)),
        tag("p", tag("strong", "Refused: "), refused, role="alert", class_="bad")
        if refused
        else None,
        tag(
            "p",
            f"A batch with fewer than {counted(smallest, 'report')} is not released. "
            + (_OF_BUNDLES if takes_bundles else _OF_ANSWERS),
        ),
        tag("p", tag("strong", "Nothing is left in the budget: "), _SPENT) if is_spent else None,
        _calendar(found, asked.times) if windows else None,
        table("Batches, the newest first", ("window", "state"), lines),
        None if windows or is_spent else form(asked, csrf),
    ]
    document = {"task_id": str(asked.task.task_id), "min_batch_size": smallest}
    return View(f"Batches: {asked.title}", content, document, lambda: [each.row for each in found])


def _of_windows(
    tx: Transaction,
    asked: Asked,
    windows: Windows,
    stored: list[StoredCollection],
    added_at: int,
    leaders_word: LeadersWord,
) -> Iterator[BatchLine]:
    """Yield the windows back from the present one to the one in which the task was added.

    Those before the task takes reports, and after it, are left out.
    """
    by_start: dict[int, StoredCollection] = {}
    for each in stored:  # the newest first
        named = _named(asked, each)
        by_start.setdefault(named["start"], each)
    since = max(asked.task.opens, min([added_at, *by_start]))
    first = windows.start(datetime.fromtimestamp(since, UTC))
    latest = tx.now if asked.task.closes is None else min(tx.now, asked.task.closes - 1)
    start = windows.start(datetime.fromtimestamp(latest, UTC))
    for _ in range(SHOWN_WINDOWS):
        if start < first:
            return
        named = {"start": int(start.timestamp()), "end": int(windows.end(start).timestamp())}
        collected = by_start.get(named["start"])
        if collected is not None:
            yield _line(asked, collected, tx.now)
        else:
            is_over = named["end"] <= tx.now
            why = "nobody has collected it yet"
            if not is_over:
                ends = asked.times.moment(named["end"])
                why = f"it ends {ends}; {loss_in_words(tx, asked.task, **named)}"
            answers, said = leaders_word.of(asked.task, named["start"])
            state = BatchState.READY if is_over else BatchState.OPEN
            period = asked.period(**named)
            yield BatchLine(named["start"], period, state, why, named, "", is_over, answers, said)
        start -= timedelta(seconds=windows.seconds)


def _line(asked: Asked, stored: StoredCollection, now: int) -> BatchLine:
    named = _named(asked, stored)
    period = asked.period(**named) if "start" in named else "the next batch"
    is_over = named.get("end", 0) <= now
    state, why = _state(stored, now, asked.times)
    again = named if state in (BatchState.FAILED, BatchState.TOO_FEW) else {}
    start, name = named.get("start", 0), stored.collection_id.hex()
    return BatchLine(start, period, state, why, again, name, is_over)


def _state_shown(state: BatchState) -> Html:
    mark = tag("span", _MARKS[state], aria_hidden="true", class_=f"mark {state.name.lower()}")
    return join((mark, " ", tag("strong", state)))


def _calendar(lines: Sequence[BatchLine], times: Times) -> Html:
    """Return the windows by month, each a mark that links to its line."""
    months: dict[str, list[BatchLine]] = {}
    for line in reversed(lines):
        months.setdefault(times.month(line.start), []).append(line)
    rows = (
        (
            month,
            join(
                tag(
                    "a",
                    _MARKS[line.state],
                    tag("span", f" {line.period}: {line.state}", class_="skip"),
                    href=f"#{line.anchor}",
                    title=f"{line.period}: {line.state}",
                    class_=f"mark {line.state.name.lower()}",
                )
                for line in months[month]
            ),
        )
        for month in sorted(months, reverse=True)
    )
    said = ", ".join(f"{mark} {state}" for state, mark in _MARKS.items())
    return table(f"Windows by the month in which they begin: {said}", ("month", "windows"), rows)


def _named(asked: Asked, stored: StoredCollection) -> Mapping[str, int]:
    """Return what names a collection's batch: its interval, or nothing where the leader selects."""
    query = decode(CollectionJobReq, stored.request).query
    return asked.task.batching.named(query, asked.task.time_precision)


def _state(stored: StoredCollection, now: int, times: Times) -> tuple[BatchState, str]:
    if stored.state is CollectionState.PENDING:
        since = f"asked for {in_words(now - stored.created_at)} ago"
        # About a collection under way, a leader only tells its collector to come again.
        return BatchState.WAITING, f"{since}; " + (
            stored.reason or "the leader has not finished it: its own status says what it waits for"
        )
    if stored.state is CollectionState.FINISHED:
        return BatchState.COLLECTED, times.moment(stored.ended_at or stored.created_at)
    problem = json.loads(stored.problem or "{}")
    why = str(problem.get("detail") or problem.get("title") or "the collection failed")
    is_small = problem.get("type") == InvalidBatchSize.type_uri
    return (BatchState.TOO_FEW if is_small else BatchState.FAILED), why


def _action(asked: Asked, line: BatchLine, csrf: str, *, is_spent: bool) -> Html | None:
    """Return what can be done with a batch: view it or, unless the budget is spent, collect it."""
    if line.state is BatchState.COLLECTED:
        href = asked.address(result=line.collection_id)
        link = tag("a", "Result", tag("span", f" of {line.period}", class_="skip"), href=href)
        return tag("div", link)
    if line.state is BatchState.WAITING:
        return _giving_up(asked, line, csrf)
    if is_spent or not line.named:
        return None
    name = f"meant-{line.named['start']}"
    meant = join(
        (
            tag("input", type="checkbox", name="meant", value="yes", id=name),
            tag("label", " shut out all later answers", for_=name),
            tag("br"),
        )
    )
    return tag(
        "form",
        *(tag("input", type="hidden", name=key, value=each) for key, each in line.named.items()),
        tag("input", type="hidden", name="csrf", value=csrf),
        None if line.is_over else meant,
        tag("button", "Collect and close", tag("span", f" {line.period}", class_="skip")),
        method="post",
        action=f"{asked.path}/batches",
    )


def _giving_up(asked: Asked, line: BatchLine, csrf: str) -> Html:
    """Return the folded form that gives up a collection, for a leader that is gone."""
    name = f"meant-{line.collection_id}"
    form = tag(
        "form",
        tag("input", type="hidden", name=ABANDONED, value=line.collection_id),
        tag("input", type="hidden", name="csrf", value=csrf),
        tag("input", type="checkbox", name="meant", value="yes", id=name, required=True),
        tag("label", f" give it up: {MEANING}", for_=name),
        tag("br"),
        tag("button", "Give up", tag("span", f" {line.period}", class_="skip")),
        method="post",
        action=f"{asked.path}/batches",
    )
    return tag("details", tag("summary", "The leader is gone for ever?"), form)


def _bundle_form(asked: Asked, csrf: str) -> Html:
    """Return the form of a task of which bundles of reports are handed in."""
    return join(
        (
            tag("h2", "Hand in a bundle"),
            tag(
                "form",
                tag("input", type="hidden", name="csrf", value=csrf),
                tag("label", "Reports, one after the other in a file ", for_="reports"),
                tag("input", type="file", name="reports", id="reports", required=True),
                tag("br"),
                tag("label", "Epsilon of this collection, which each has paid ", for_="epsilon"),
                tag("input", name="epsilon", id="epsilon", required=True, placeholder="1/2"),
                tag("br"),
                tag("button", "Hand in and collect"),
                method="post",
                action=f"{asked.path}/bundle",
                enctype="multipart/form-data",
            ),
        )
    )


def _free_form(asked: Asked, csrf: str) -> Html:
    """Return the form of a task whose batches are not windows."""
    zone = asked.times.name
    bounds = [
        join(
            (
                tag("label", f"{label} ", for_=name),
                tag("input", type="datetime-local", name=name, id=name, required=True),
                tag("br"),
            )
        )
        for name, label in (("start", f"From ({zone})"), ("end", f"To ({zone})"))
    ]
    fields = [] if asked.task.batching.has_ids else bounds
    unit = asked.task.time_precision
    return join(
        (
            tag("h2", "Collect a batch"),
            tag(
                "form",
                tag("input", type="hidden", name="csrf", value=csrf),
                *fields,
                tag("p", f"Both must be multiples of {unit:,} s.") if fields else None,
                tag("input", type="checkbox", name="meant", value="yes", id="meant"),
                tag("label", " even if it is not over: shut out all later answers", for_="meant"),
                tag("br"),
                tag("button", "Collect and close this batch" if fields else "Collect the next one"),
                method="post",
                action=f"{asked.path}/batches",
            ),
        )
    )
