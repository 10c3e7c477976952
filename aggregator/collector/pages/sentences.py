"""What a result says, in sentences as one would say them."""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.changes import Changed
from aggregator.collector.pages.readings import Estimate, Reading
from aggregator.collector.results import compare_all
from aggregator.collector.results.intervals import TOO_FEW
from aggregator.dp.utility import PERCENT
from aggregator.service.web.pages.html import Html, escape, isolated, join, tag
from aggregator.steward.survey import Figure

_NAMED = 3
"""How many labels are named that rose, that fell, or that may be the most frequent."""

_MOST_COMPARED = 40
"""The most answers of which the most frequent one is looked for."""

_MOST_PAIRS = 60
"""The most differences between groups that are looked at."""

_TWO = 2


def headline(shown: Reading) -> Html:
    """Return a result in one sentence, or what is said in place of it."""
    main = shown.main_estimates
    counts = [each for each in shown.main if each.shows == "count"]
    if len(main) == 1 or not counts:
        return _of_several(main)
    first = shown.estimate(counts[0]).shown
    if first.ends is None and first.value.startswith(TOO_FEW):
        return escape(_capital(first.value) + ".")
    part = shown.asked.part
    if len(counts) == _TWO or part is None or not part.is_ranked or len(counts) > _MOST_COMPARED:
        return _of_label(shown, counts[0].quantity.label)
    return _of_many(shown, counts)


def _of_many(shown: Reading, counts: Sequence[Figure]) -> Html:
    """Return which of several answers is the most frequent, as far as the noise lets us say."""
    may_be = most_frequent(tuple(counts))
    if len(may_be) == 1:
        return join(("Most frequent: “", _of_label(shown, may_be[0], "”,")))
    if len(may_be) <= _NAMED and len(may_be) < len(counts):
        return join(("Most frequent is ", listed(may_be, "or"), "; the noise hides which."))
    return escape("The noise hides which answer is the most frequent.")


def between_groups_in_short(shown: Reading) -> Html | None:
    """Return how the groups of a table surely differ, of all their means or else shares at once.

    None where there are none, or too many to compare.
    """
    means = [each for each in shown.by_group if each.shows == "mean"]
    figures = means or [each for each in shown.by_group if each.shows == "share"]
    said = [each for each in figures if shown.estimate(each).shown.ends is not None]
    pairs = [
        (first, second)
        for first, second in combinations(said, 2)
        if first.quantity.label == second.quantity.label
    ]
    if not 0 < len(pairs) <= _MOST_PAIRS:
        return None
    differ = groups_that_differ(tuple(pairs))
    if not differ:
        return tag("p", "No difference between the groups is larger than the noise.", class_="big")
    sentences = []
    for first, second in differ[:_NAMED]:
        label = first.quantity.label
        more = "the mean is higher" if first.shows == "mean" else "is more frequent"
        what = join((listed([label], ""), " ")) if label else None
        groups = (listed([first.group], ""), " than among ", listed([second.group], ""))
        sentences.append(join((what, f"{more} among ", *groups)))
    begin, *others = sentences
    rest = len(differ) - _NAMED
    return tag(
        "p",
        *(Html(_capital(begin)), *(part for each in others for part in ("; ", each))),
        f"; and {rest:,} more" if rest > 0 else None,
        ".",
        class_="big",
    )


@lru_cache(maxsize=1024)
def groups_that_differ(pairs: tuple[tuple[Figure, Figure], ...]) -> list[tuple[Figure, Figure]]:
    """Return those pairs of which one is surely larger, that one first; all at once hold."""
    found = compare_all([(first.quantity, second.quantity) for first, second in pairs])
    return [
        (first, second) if each.is_larger else (second, first)
        for (first, second), each in zip(pairs, found, strict=True)
        if each.is_larger is not None
    ]


def figure(each: Estimate) -> Html:
    """Return one figure with its interval."""
    return join((isolated(_capital(each.mark.label or each.shows)), " ", *_number(each)))


@lru_cache(maxsize=1024)
def most_frequent(counts: tuple[Figure, ...]) -> list[str]:
    """Return the answers of which one is the most frequent, at 95 % confidence.

    With k answers, the one that truly is gets left out only if one of the k - 1 others seems larger
    than it by more than their noise exceeds with the miss over k - 1: which one is compared with
    all others may be chosen by the noise.
    """
    first = max(counts, key=lambda each: each.quantity.estimate or 0)
    others = [each for each in counts if each is not first]
    compared = compare_all([(first.quantity, each.quantity) for each in others])
    left = [
        each.quantity.label
        for each, found in zip(others, compared, strict=True)
        if not found.is_larger
    ]
    return [each.quantity.label for each in counts if each is first or each.quantity.label in left]


def change(changed: Changed | None, asked: Asked) -> Html | None:
    """Return what can and what cannot be concluded from the newest result and the one before.

    What it is compared with is said beside it.
    """
    if changed is None:
        return None
    two = f"two {asked.windows.name}s" if asked.windows else "two results"
    if changed.is_of_one:
        for labels, verb in ((changed.rose, "rose"), (changed.fell, "fell")):
            if labels:
                return tag("p", f"It {verb}.")
        return tag("p", f"Whether it rose or fell, {two} cannot tell.")
    moved: list[Html | str] = []
    for labels, verb in ((changed.rose, "rose"), (changed.fell, "fell")):
        if labels:
            moved += [" and " if moved else "", listed(labels, "and"), f" {verb}"]
    if not moved:
        return tag("p", f"Whether anything rose or fell, {two} cannot tell.")
    is_alone = len(changed.rose) + len(changed.fell) == 1 and changed.open
    rest = f"; for the others {two} cannot tell" if changed.open else ""
    return tag("p", "Only " if is_alone else None, *moved, f"{rest}.")


def listed(labels: Sequence[str], last: str) -> Html:
    """Return some labels in quotes, and how many more there are."""
    named = [join(("“", isolated(label), "”")) if label else escape("it") for label in labels]
    if len(named) > _NAMED:
        named = [*named[: _NAMED - 1], escape(f"{len(named) - _NAMED + 1:,} more")]
        last = "and"
    *first, end = named
    parts = [part for each in first for part in (each, ", ")][:-1]
    return join((*parts, f" {last} ", end)) if first else end


def _of_several(main: Sequence[Estimate]) -> Html:
    """Return the first few figures, such as the means of several numbers."""
    said = [figure(each) for each in main[:_NAMED] if each.shown.ends is not None]
    if not said:
        return escape(_capital(main[0].shown.value) + ".")
    return join([said[0], *(part for each in said[1:] for part in ("; ", each))])


def _of_label(shown: Reading, label: str, after: str = "") -> Html:
    """Return the share of an answer, or its count."""
    found = shown.estimate_of("share", label) or shown.estimate_of("count", label)
    assert found is not None  # noqa: S101  it is one of those that were counted
    if found.shown.ends is None:
        return escape(_capital(found.shown.value) + ".")
    name = label if after else _capital(label)
    return join((isolated(name), after, " ", *_number(found)))


def _number(each: Estimate) -> list[Html]:
    value = isolated(each.shown.value)
    if not each.shown.span:
        return [value]
    title = f"At {PERCENT} confidence"
    return [value, tag("small", f" {each.shown.span}", class_="soft", title=title)]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
