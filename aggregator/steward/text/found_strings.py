"""What a released window of a text question says of some strings, for notebooks and pages.

tasks, documents = tasks_from_toml(text_of_tasks_toml), documents_in(text_of_released_json)
words = Words.of_documents(tasks, documents, ["pear", "fig"])
words.found, words.unexplained
words.frame()
"""

import dataclasses
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from aggregator.client.text.choices import ByChoice
from aggregator.collector.results import ConfidenceInterval, Quantity, Table
from aggregator.collector.results.intervals import NO_UPPER, Bound
from aggregator.collector.results.sums import check_confidence
from aggregator.collector.results.values import Source
from aggregator.collector.results.written import said
from aggregator.dp.laws import DiscreteLaplaceLaw
from aggregator.dp.utility import DEFAULT_CONFIDENCE
from aggregator.errors import ParameterError
from aggregator.protocol.task import Task
from aggregator.steward.text.beside import decode_beside
from aggregator.steward.text.candidates import Listed, candidates_of
from aggregator.steward.text.decode import Decoded, Found, interval
from aggregator.steward.text.means import HowMuch
from aggregator.steward.text.text_tasks import TextTasks
from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AGGREGATORS = 2
_METHOD = "normal law"


def name_of(found: Found) -> str:
    """Return a found string's name, in one line that is harmless to display."""
    return escaped(" or ".join(found.names)) or f"in no list (fingerprint {found.fingerprint:08x})"


def mean_in_words(found: Found) -> tuple[str, str] | None:
    """Return the mean of the numbers beside a string, and its interval; None if it is unknown.

    It is if no numbers are asked for, or the interval has more than half of what is possible.
    """
    amount = found.amount
    if amount is None or amount.high - amount.low > float(amount.law.range.size) / 2:
        return None
    value, low, high = said(amount.mean, amount.low, amount.high)
    return value, f"{low} to {high}"


def decoded_document(decoded: Decoded) -> dict[str, object]:
    """Return what was found, as members of a JSON document.

    Only if they were asked for, it has `listed` (where lists had a threshold of their own) and
    `shown` (strings that are shown whatever their count).
    """
    document: dict[str, object] = {
        "confidence": "19/20",
        "found": [_found_document(each) for each in decoded.found],
        "candidates": decoded.candidates,
        "threshold": decoded.threshold,
        "expected_false": decoded.expected_false,
        "no_answer": decoded.no_answer,
        "unexplained": decoded.unexplained,
    }
    if decoded.listed is not None:
        document["listed"] = dataclasses.asdict(decoded.listed)
    if decoded.shown:
        document["shown"] = [_found_document(each) for each in decoded.shown]
    return document


def found_in_words(decoded: Decoded) -> list[str]:
    """Return how many strings of each kind were found, and how many of them may be false."""
    found, listed = len(decoded.found), decoded.listed
    if listed is None:
        return [_found_of(found, decoded.candidates, "candidates", decoded.expected_false)]
    named = sum(bool(each.names) for each in decoded.found)
    others = decoded.expected_false - listed.expected_false
    of_lists = f"listed candidates (threshold {listed.threshold:,.0f})"
    of_others = f"other candidates (threshold {decoded.threshold:,.0f})"
    return [
        _found_of(named, listed.candidates, of_lists, listed.expected_false),
        _found_of(found - named, decoded.candidates - listed.candidates, of_others, others),
    ]


def _found_of(found: int, candidates: int, what: str, false: float) -> str:
    return (
        f"{found} found of {candidates:,} {what}, of which {false:.2g} are expected to be strings "
        "that nobody wrote"
    )


def _found_document(found: Found) -> dict[str, object]:
    document = dataclasses.asdict(dataclasses.replace(found, amount=None, by=()))
    del document["amount"], document["by"]
    if found.amount is not None:
        document["amount"] = found.amount.document
    if found.by:
        document["by"] = [{"label": label, **_cell(part)} for label, part in found.by]
    return document


def _cell(part: HowMuch) -> dict[str, float]:
    """Return how many of a string's people chose a label, and which part of them."""
    names = ("count", "low", "high", "share", "share_low", "share_high")
    values = part.sum, part.sum_low, part.sum_high, part.mean, part.low, part.high
    return dict(zip(names, values, strict=True))


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Held(Quantity):
    """How many people hold a string that was found, or that is shown whatever its count.

    `source` is the noise of the release, which all its strings share.
    """

    found: Found
    source: Source

    @property
    @override
    def estimate(self) -> Fraction:
        """An estimate: of a found string, more often too large than too small."""
        return Fraction(self.found.count)

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        check_confidence(confidence)
        found = self.found
        low, high = interval(found.count, found.deviation, found.threshold, float(confidence))
        passed = "" if found.threshold is None else f", given that it passed {found.threshold:.4g}"
        return ConfidenceInterval(Fraction(low), Fraction(high), confidence, _METHOD + passed)

    @override
    def sources(self) -> frozenset[Source]:
        return frozenset({self.source})


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Given(Quantity):
    """The mean or the sum of the numbers that people gave beside a string.

    Of ones for those who chose a label, that is which part of its people did, or how many.
    """

    held: Held
    amount: HowMuch
    is_sum: bool = False

    @property
    @override
    def estimate(self) -> Fraction:
        return Fraction(self.amount.sum if self.is_sum else self.amount.mean)

    @override
    def interval(self, confidence: Fraction = DEFAULT_CONFIDENCE) -> ConfidenceInterval:
        of_count, sure = self.held.interval(confidence), float(confidence)
        count = float(self.held.estimate), float(of_count.low), float(of_count.high)
        law = self.amount.law
        _, low, high = law.sum(count, sure) if self.is_sum else law.mean(count, sure)
        return ConfidenceInterval(Fraction(low), Fraction(high), confidence, of_count.method)

    @override
    def sources(self) -> frozenset[Source]:
        return self.held.sources()

    @property
    @override
    def limits(self) -> tuple[Bound, Bound]:
        asked = self.amount.law.range
        if self.is_sum:
            return (Fraction(0), NO_UPPER) if asked.low >= 0 else super().limits
        return asked.low, asked.high


@dataclasses.dataclass(frozen=True, eq=False)
class Words:
    """What people wrote in one window of a text question, as far as some strings explain it."""

    asked: TextTasks
    decoded: Decoded

    @classmethod
    def of_documents(
        cls,
        tasks: Iterable[Task],
        documents: Iterable[object],
        strings: Iterable[str] = (),
        *,
        show: Iterable[str] = (),
        every: bool = False,
    ) -> "Words":
        """Return which of some strings people wrote.

        Args:
            tasks: All tasks of one text question, in any order.
            documents: For each task a collection as `prio collect --json` prints it, or its result;
                all of one window. `documents_in` reads them from a file's text.
            strings: The candidates. Others can be tried at any time: nobody is asked, and it costs
                no privacy. But trying lists until a string passes counts as trying them all.
            show: Strings to show whatever their count, at most as many as a task has buckets. Name
                them before you look at any result: only then do their intervals hold.
            every: Whether to try all fingerprints, which takes minutes to an hour. Strings that are
                no candidates then have no name, and a higher threshold than these.

        Raises:
            ParameterError: The tasks are not those of one question, the documents are not of one
                window of it, there is no string, or there are too many to show.
        """
        for name, given in (("strings", strings), ("show", show)):
            if isinstance(given, str):
                raise ParameterError(f"{name}: must be several; give one as a list with one string")
        asked = TextTasks.of(tasks)
        lists, shown = (Listed.of(each, asked.hashes.meaning) for each in (strings, show))
        candidates, tables = candidates_of(lists, shown, every=every), asked.tables(documents)
        return cls(asked, decode_beside(asked.hashes, tables, asked.told, candidates, show=shown))

    @property
    def title(self) -> str:
        """The title of the question."""
        return self.asked.title

    @property
    def found(self) -> tuple[Found, ...]:
        """Strings that people wrote, those written by most people first."""
        return self.decoded.found

    @property
    def shown(self) -> tuple[Found, ...]:
        """Strings that are shown whatever their count, those of the highest counts first."""
        return self.decoded.shown

    @property
    def candidates(self) -> int:
        """How many strings were tried."""
        return self.decoded.candidates

    @property
    def expected_false(self) -> float:
        """How many of the found strings nobody wrote, by expectation."""
        return self.decoded.expected_false

    @property
    def no_answer(self) -> float:
        """How many people gave no answer, estimated."""
        return self.decoded.no_answer

    @property
    def unexplained(self) -> float:
        """How many people wrote something that was not found, estimated."""
        return self.decoded.unexplained

    @property
    def document(self) -> dict[str, object]:
        """The results as JSON, with the members that `prio survey results --json` has of them."""
        return {"version": 1, "title": self.title, **decoded_document(self.decoded)}

    @property
    def quantities(self) -> list[Held]:
        """How many people wrote each string, as quantities to compare: `found`, then `shown`.

        They share the noise of one release, and people keep to their task in all windows. So joint
        intervals are by Bonferroni, and differences are bounded by both intervals.
        """
        law = DiscreteLaplaceLaw(_AGGREGATORS, 2 / self.asked.epsilon)
        source = Source(("text", self.asked.hashes.meaning), law)
        return [Held(each, source, label=name_of(each)) for each in (*self.found, *self.shown)]

    def table(self, confidence: Fraction = DEFAULT_CONFIDENCE, *, jointly: bool = False) -> Table:
        """Return the strings in one table, each with its interval.

        What an interval depends on stands in its row's `method`. Where people gave a number beside
        a string, the column `shows` says whether a row is a count, a mean or a sum. Where strings
        are counted by another answer, it says whether it is a count or a share, and the column
        `group` of which label; "" is of all together.

        Args:
            confidence: The confidence of each interval by itself, or of all at once.
            jointly: Whether all intervals hold at once.
        """
        rows = [row for held in self.quantities for row in _rows_of(held)]
        told, named = self.asked.told, dict[str, list[str]]()
        if isinstance(told, ByChoice):
            named["group"] = [group for group, _, _ in rows]
        if told is not None:
            named["shows"] = [shows for _, shows, _ in rows]
        return Table(
            [quantity for _, _, quantity in rows],
            named,
            confidence=confidence,
            jointly=jointly,
            title=self.title,
            guarantee=self.asked.guarantee,
        )

    def frame(self) -> Any:  # noqa: ANN401 - of whichever of two libraries is installed
        """Return the table as a data frame; see `Table.frame`."""
        return self.table().frame()

    def plot(self, axes: "Axes | None" = None, *, most: int = 40) -> "Axes":
        """Draw the strings that most people wrote, with their intervals; see `Table.plot`.

        Args:
            axes: The matplotlib axes to draw into; new ones unless given.
            most: The most strings to draw.
        """
        shown = dataclasses.replace(self.decoded, found=self.found[:most])
        counts = dataclasses.replace(self, decoded=shown).quantities
        return Table(counts, title=self.title).plot(axes)

    @override
    def __repr__(self) -> str:
        """Show how many strings were found, and how sure that is."""
        return (
            f"{self.title}: {'; '.join(found_in_words(self.decoded))}; no answer: "
            f"{self.no_answer:,.0f}; answers not explained: {self.unexplained:,.0f}"
        )

    def _repr_html_(self) -> str:
        """Return the table for a notebook."""
        return self.table()._repr_html_()


def _rows_of(held: Held) -> list[tuple[str, str, Quantity]]:
    """Return what a table shows of a string: of which group, what, and how much."""
    amount, rows = held.found.amount, list[tuple[str, str, Quantity]]()
    rows.append(("", "count", held))
    if amount is not None:
        unit = amount.law.range.unit
        rows += [
            ("", shows, Given(held, amount, is_sum=is_sum, label=held.label, unit=unit))
            for shows, is_sum in (("mean", False), ("sum", True))
        ]
    return rows + [
        (label, shows, Given(held, part, is_sum=is_sum, label=held.label))
        for label, part in held.found.by
        for shows, is_sum in (("count", True), ("share", False))
    ]
