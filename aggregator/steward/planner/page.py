"""The form of the planner's page: labelled fields, in groups."""

from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.service.web.pages.html import Html, tag
from aggregator.steward.planner.fields import MOST_CHARACTERS
from aggregator.steward.planner.form import GOALS, NOISES, RHO, SHAPES
from aggregator.steward.planner.survey_question import FIELDS, KINDS
from aggregator.steward.survey import questions

LABELS: Final = {
    "text": "The question, as people will read it",
    "kind": "An answer is",
    "labels": "The answers, one per line",
    "at_most": "The most that one person may choose (empty: any number)",
    "low": "Smallest value",
    "high": "Largest value",
    "step": "Step",
    "unit": "Unit",
    "edges": "Edges of the ranges",
    "columns": "The numbers, one per line: name, smallest, largest, step, unit",
    "regions": "The places, one per line, each indented below the one it belongs to",
    "people": "How many people answer per window, at least",
    "window": "Length of a window",
    "windows": "Number of windows",
    "first": "First day of the first window (empty: next Monday)",
    "title": "Title of the survey",
    "asked": "Who is asked (costs add up over everything they are asked)",
    "mechanism": "The noise",
    "delta": "δ per year",
    "shape": "Made-up answers",
    "goal": "Start from",
    "error": "Wanted error, in % of the largest possible figure",
    "strength": f"ε per window ({RHO} if Gaussian)",
}
"""The text beside each field."""
_OF: Final[Mapping[str, Sequence[str]]] = {
    field: [name for name, kind in questions.KINDS.items() if field in kind.planned_by]
    for field in FIELDS
}
"""For each field that only some kinds of question have, those kinds."""

_LONG: Final = frozenset({"labels", "columns", "regions"})
_CHOICES: Final = {"kind": KINDS, "mechanism": NOISES, "shape": SHAPES}
_SLIDERS: Final = {"error": ("0.01", "269"), "strength": ("0.0001", "370")}
"""A tenth of each slider's least value, and its last position: two digits in each decade."""

_WINDOWS: Final = ("day", "week", "2 weeks", "4 weeks", "13 weeks", "52 weeks")
_MOST_SHOWN = 5000
"""The most characters of a field that a page repeats."""

STYLE: Final = (
    """
.planner{display:grid;gap:1.5rem;grid-template-columns:minmax(0,1fr)}
@media(min-width:58rem){.planner{grid-template-columns:19rem minmax(0,1fr)}}
fieldset{border:1px solid var(--edge);border-radius:.5rem;margin:0 0 1rem;padding:.5rem 1rem 1rem;
min-width:0}
legend{font-weight:600}
.field{margin:.6rem 0}.field label{display:block}
.field input:not([type=radio]),.field select,.field textarea{width:100%}
.pair{display:grid;grid-template-columns:1fr 5.5rem;gap:.25rem .75rem;align-items:center}
.pair label{grid-column:1/-1}
#figures[aria-busy]{opacity:.6}
#figures h2:first-of-type{margin-top:0}
pre{max-height:24rem;overflow:auto}
@supports selector(:has(*)){"""
    + "".join(
        f"#plan:has(#kind option[value={kind}]:checked) .of:not(.of-{kind}){{display:none}}"
        for kind in KINDS
    )
    + "}\n"
)


def form(fields: Mapping[str, str], path: str) -> Html:
    """Return the form of a page at a path, filled with the fields' texts."""
    question = ("text", "kind", *_OF)
    people = ("people", "window", "windows", "first", "title", "asked")
    return tag(
        "form",
        _group("The question", *(_field(name, fields) for name in question)),
        _group("The people", *(_field(name, fields) for name in people)),
        _group(
            "The noise",
            _goals(fields["goal"]),
            *(_slider(name, fields) for name in _SLIDERS),
            *(_field(name, fields) for name in ("mechanism", "delta", "shape")),
        ),
        tag("button", "Show, with fresh noise"),
        method="post",
        action=path,
        id="plan",
        data_figures=f"{path}/figures",
    )


def _group(name: str, *fields: Html) -> Html:
    return tag("fieldset", tag("legend", name), *fields)


def _field(name: str, fields: Mapping[str, str]) -> Html:
    value = fields[name][:_MOST_SHOWN]
    if name in _CHOICES:
        options = (
            tag("option", words, value=key, selected=key == value)
            for key, words in _CHOICES[name].items()
        )
        box = tag("select", *options, name=name, id=name)
    elif name in _LONG:
        # A text area's first line break is not part of its text.
        box = tag("textarea", f"\n{value}", name=name, id=name, rows=6, spellcheck="false")
    else:
        box = tag(
            "input",
            name=name,
            id=name,
            value=value,
            type="date" if name == "first" else "text",
            maxlength=MOST_CHARACTERS.get(name, 2000),
            list="windows-offered" if name == "window" else None,
            autocomplete="off",
        )
    offered = (
        tag("datalist", *(tag("option", value=each) for each in _WINDOWS), id="windows-offered")
        if name == "window"
        else None
    )
    kinds = _OF.get(name, ())
    classes = " ".join(["field", *(["of"] if kinds else []), *(f"of-{kind}" for kind in kinds)])
    return tag("div", tag("label", LABELS[name], for_=name), box, offered, class_=classes)


def _goals(chosen: str) -> Html:
    choices = (
        tag(
            "label",
            tag("input", type="radio", name="goal", value=key, checked=key == chosen),
            f" {words}",
        )
        for key, words in GOALS.items()
    )
    return tag("div", tag("span", LABELS["goal"]), *choices, role="radiogroup", class_="field")


def _slider(name: str, fields: Mapping[str, str]) -> Html:
    label, (least, last) = LABELS[name], _SLIDERS[name]
    return tag(
        "div",
        tag("label", label, for_=name),
        tag(
            "input",
            type="range",
            min=0,
            max=last,
            hidden=True,
            aria_label=label,
            data_field=name,
            data_least=least,
        ),
        tag(
            "input",
            name=name,
            id=name,
            value=fields[name][:40],
            inputmode="decimal",
            autocomplete="off",
        ),
        class_="field pair",
    )
