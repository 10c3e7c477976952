"""What people wrote: the page of a text question, of one window and one list of strings."""

import dataclasses
from collections.abc import Sequence
from urllib.parse import urlencode

from aggregator.client.text.amounts import Range
from aggregator.collector.pages.files import writes_parquet
from aggregator.collector.pages.numbers import said
from aggregator.collector.pages.readings import Row
from aggregator.collector.pages.texts import AskedText, TextWindow
from aggregator.collector.pages.view import MOST_BARS, MOST_ROWS, View, budget, chooser, unbroken
from aggregator.collector.pages.word_lists import MOST_PASTED
from aggregator.collector.results.written import said as said_of
from aggregator.dap.problems import UnrecognizedCollectionJob
from aggregator.dp.utility import PERCENT
from aggregator.service.web.pages.charts import Mark, bars
from aggregator.service.web.pages.html import Html, isolated, join, table, tag
from aggregator.steward.text.decode import Decoded, Found
from aggregator.steward.text.found_strings import Words, mean_in_words, name_of
from aggregator.steward.text.means import HowMuch

PASTED = "strings"
"""The form field that holds a reader's own list."""

OWN = "your own"
"""The name of such a list."""

_LONGEST = 200
"""The most characters of a string that a page shows; files have all."""


@dataclasses.dataclass(frozen=True)
class Looked:
    """What a page of a text question shows.

    Windows are at least partly collected, the latest first; only a fully collected one is `shown`.
    `tried` is the name of the list that was tried, `decoded` what it found, and `refused` why it
    was not tried.
    """

    asked: AskedText
    windows: Sequence[TextWindow]
    made: int
    shown: TextWindow | None
    lists: Sequence[str]
    tried: str = ""
    decoded: Decoded | None = None
    refused: str = ""

    @property
    def period(self) -> str:
        """The window for a reader."""
        assert self.shown is not None  # noqa: S101  only asked for where there is one
        return self.asked.first.period(self.shown.start, self.shown.end)

    @property
    def kept(self) -> dict[str, str]:
        """The parameters of its address."""
        window = {} if self.shown is None else {"window": str(self.shown.start)}
        return window | ({"list": self.tried} if self.tried not in ("", OWN) else {})


def chosen_window(asked: AskedText, windows: Sequence[TextWindow], given: str) -> TextWindow | None:
    """Return the fully collected window whose first second is given; by default the newest.

    Raises `UnrecognizedCollectionJob` if there is no such window.
    """
    whole = [each for each in windows if asked.is_whole(each)]
    if not given:
        return whole[0] if whole else None
    for each in whole:
        if str(each.start) == given:
            return each
    raise UnrecognizedCollectionJob("the question has no such window, or not of all its tasks")


def words_view(looked: Looked, csrf: str) -> View:
    """Return the page; `csrf` is the value that this session's forms carry, empty in a file."""
    asked = looked.asked
    words = None if looked.decoded is None else Words(asked.text, looked.decoded)
    content = [
        tag("p", isolated(f"{asked.survey}."), class_="soft") if asked.survey else None,
        budget(looked.made, asked.first.most_releases),
        tag("p", tag("strong", "Refused: "), looked.refused, role="alert", class_="bad")
        if looked.refused
        else None,
        *_of_window(looked, words, csrf),
        tag("h2", "Windows and tasks"),
        _windows(looked),
        _tasks(asked),
    ]
    found = dict.fromkeys(_FOUND) if words is None else words.document
    document: dict[str, object] = {
        "question": asked.title,
        "survey": asked.survey,
        "task_id": str(asked.first.task.task_id),
        "tasks": len(asked.text.tasks),
        "results": looked.made,
        "lists": list(looked.lists),
        "window": None if looked.shown is None else looked.period,
        "word_list": looked.tried or None,
        **{name: found[name] for name in _FOUND},
    }

    def rows() -> list[Row]:
        if words is None:
            return []
        named: Row = {"window": looked.period, "word_list": looked.tried}
        return [named | row for row in words.table().rows]

    return View(asked.title, content, document, rows)


_FOUND = (
    "confidence",
    "found",
    "candidates",
    "threshold",
    "expected_false",
    "no_answer",
    "unexplained",
)
"""The members that `prio survey results --words … --json` has too."""


def _of_window(looked: Looked, words: Words | None, csrf: str) -> list[Html | None]:
    asked = looked.asked
    if looked.shown is None:
        selects = "The leader selects the batches, so no two tasks have a batch in common: "
        why = f"{selects}`Words` of aggregator.results decodes them."
        leader_selects = asked.first.task.batching.leader_selects
        return [tag("p", why if leader_selects else "No window has a result of all tasks yet.")]
    whole = [each for each in looked.windows if asked.is_whole(each)]
    periods = [(str(each.start), asked.first.period(each.start, each.end)) for each in whole]
    kept = looked.kept
    return [
        chooser(
            "window",
            "Window",
            periods,
            str(looked.shown.start),
            button="Show",
            kept={key: each for key, each in kept.items() if key != "window"},
        ),
        tag("h2", unbroken(looked.period)),
        tag("p", asked.text.guarantee, class_="big"),
        tag(
            "p",
            f"Each person is in one of {len(asked.text.tasks):,} tasks. Their client sees "
            "to that: no aggregator can check it, and anyone who is in all of them pays for each.",
            class_="soft",
        ),
        *([] if words is None else _found(looked, words)),
        tag("h2", "Other strings"),
        tag(
            "p",
            "Any strings can be tried on what was released, now or in a year: nobody is asked "
            "again, and it costs nobody anything. But whoever tries lists until a string passes "
            "has tried all of them.",
        ),
        *_lists(looked),
        _own_list(looked, csrf) if csrf else None,
        tag("h2", "As Python"),
        tag(
            "pre",
            tag("code", _python(looked.asked, looked.shown)),
            tabindex=0,
            role="region",
            aria_label="The same in Python",
        ),
    ]


def _python(asked: AskedText, shown: TextWindow) -> str:
    first = str(asked.first.task.task_id)
    return (
        "from aggregator.collector import Collector\n"
        "from aggregator.results import Words, text_tasks_in\n\n"
        'with Collector.open("collector.toml") as collector:\n'
        "    found = text_tasks_in(collector.tasks())\n"
        f'    (asked,) = [each for each in found if str(each.tasks[0].task_id) == "{first}"]\n'
        "    results = [each for task in asked.tasks for each in collector.results(task)]\n\n"
        f"window = [each for each in results if each.start.timestamp() == {shown.start}]\n"
        'strings = ["of", "your", "own"]\n'
        "words = Words.of_documents(asked.tasks, [each.document for each in window], strings)\n"
        "words.frame()\n"
    )


def _found(looked: Looked, words: Words) -> list[Html | None]:
    """Return what a list finds."""
    marks = [Mark(_shortened(name_of(e)), e.count, e.low, e.high) for e in words.found]
    title = f"{looked.asked.title}: how many people wrote it"
    more = len(marks) - MOST_ROWS
    rest = f"; the downloads have {more:,} more" if more > 0 and looked.tried != OWN else ""
    told, about = looked.asked.text.told, None
    names: tuple[str, ...] = ("string", "people", "from", "to")
    cells: list[tuple[Html | str, ...]] = [
        (isolated(mark.label), *said(mark)) for mark in marks[:MOST_ROWS]
    ]
    shown = list(zip(cells, words.found[:MOST_ROWS], strict=True))
    if isinstance(told, Range):
        names += (f"mean, {told.unit}" if told.unit else "mean",)
        cells, about = [(*row, _mean(each)) for row, each in shown], _OF_MEANS
    elif told is not None:
        names += told.labels
        cells = [(*row, *(_chose(part) for _, part in each.by)) for row, each in shown]
        about = f"How many of a string's people chose each answer to {told.question}{_OF_LABELS}"
    counts = (
        ("Strings that were tried", f"{words.candidates:,}"),
        ("Found", f"{len(words.found):,}"),
        ("Of these, expected to be strings that nobody wrote", f"{words.expected_false:.2g}"),
        ("A string is found if its count reaches", f"{words.decoded.threshold:,.0f}"),
        ("Gave no answer", f"{words.no_answer:,.0f}"),
        ("Wrote what was not found", f"{words.unexplained:,.0f}"),
    )
    return [
        tag("p", "The list is ", isolated(looked.tried), "."),
        bars(marks[:MOST_BARS], title, "people").fitting if marks else None,
        tag(
            "p",
            f"Whiskers are {PERCENT} intervals for the noise, each on its own, given that the "
            "string was found. They say nothing about people who did not report.",
            class_="soft",
        )
        if marks
        else None,
        tag("dl", *(part for name, each in counts for part in (tag("dt", name), tag("dd", each)))),
        table(f"{looked.period}, {PERCENT} intervals{rest}", names, cells)
        if marks
        else tag("p", "None of these strings is found."),
        tag("p", about, class_="soft") if marks and about else None,
        _downloads(looked) if looked.tried != OWN else None,
    ]


_OF_MEANS = (
    "Means are of the numbers that people gave beside a string. For strings that are only just "
    "found they are drawn towards the middle of what is possible, by less than the interval allows "
    "for. The downloads have sums, too, which are known less well."
)


_OF_LABELS = (
    ", of those who answered both. Each interval is on its own. The downloads have shares, too."
)


def _chose(part: HowMuch) -> str:
    """Return how many of a string's people chose a label, with the interval."""
    # An estimate may be below 0, where no interval is.
    value, low, high = said_of(max(part.sum, part.sum_low), part.sum_low, part.sum_high)
    return f"{value} ({low} to {high})"


def _mean(found: Found) -> str:
    """Return a string's mean with its interval, or what to say in place of it."""
    mean = mean_in_words(found)
    return "too few to say" if mean is None else f"{mean[0]} ({mean[1]})"


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[:_LONGEST]} …"


def _lists(looked: Looked) -> list[Html | None]:
    if not looked.lists:
        return [tag("p", "This collector has no lists of its own (the setting word_lists).")]
    kept = {key: each for key, each in looked.kept.items() if key != "list"}
    options = [(name, name) for name in looked.lists]
    if len(options) == 1:
        return []
    return [chooser("list", "List", options, looked.tried, button="Try", kept=kept)]


def _own_list(looked: Looked, csrf: str) -> Html:
    assert looked.shown is not None  # noqa: S101  only asked for where there is one
    return tag(
        "form",
        tag("input", type="hidden", name="csrf", value=csrf),
        tag("input", type="hidden", name="window", value=str(looked.shown.start)),
        tag("label", f"Strings of your own, one a line, at most {MOST_PASTED:,}", for_=PASTED),
        tag("br"),
        tag("textarea", name=PASTED, id=PASTED, rows=6, spellcheck="false", required=True),
        tag("br"),
        tag("button", "Try them"),
        method="post",
        action=looked.asked.path,
    )


def _downloads(looked: Looked) -> Html:
    query = urlencode(looked.kept)
    tables = ["csv", "json", *(["parquet"] if writes_parquet() else [])]
    links = (
        tag("span", tag("a", ending.upper(), href=f"{looked.asked.path}.{ending}?{query}"), " ")
        for ending in tables
    )
    return tag("p", "Downloads: ", *links)


def _windows(looked: Looked) -> Html:
    count = len(looked.asked.text.tasks)
    if not looked.windows:
        return tag("p", "Nothing has been collected yet.")
    cells = [
        (
            unbroken(looked.asked.first.period(each.start, each.end)),
            "all tasks"
            if looked.asked.is_whole(each)
            else f"{len(each.collections):,} of {count:,} tasks; all are needed",
        )
        for each in looked.windows
    ]
    return table("Collected, the newest first", ("window", "of"), cells)


def _tasks(asked: AskedText) -> Html:
    """Return folded links to the tasks' histograms, which people rarely read."""
    links = (
        tag("a", str(place), href=f"/questions/{task.task_id}")
        for place, task in enumerate(asked.text.tasks)
    )
    listed = join(part for link in links for part in (link, " "))
    return tag("details", tag("summary", "The tasks, by place"), tag("p", listed))
