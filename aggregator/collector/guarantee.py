"""A result's guarantee in words: what is promised, to whom, and on what conditions."""

from collections.abc import Mapping

from aggregator.collector.documents import Document


def promise(result: Mapping[str, object]) -> str:
    """Return, in one line, what a result's document guarantees."""
    privacy = _member(result, "privacy")
    if isinstance(in_short := privacy.get("in_short"), str):
        return in_short
    if privacy["epsilon"] is None:
        return "No differential privacy"
    delta = "" if privacy["delta"] in (None, "0") else f", delta {privacy['delta']}"
    return f"Epsilon {privacy['epsilon']}{delta} for each result"


def conditions(result: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the conditions of that guarantee, each with its subject."""
    privacy, error = _member(result, "privacy"), _member(result, "error")
    selection = result["selection"]
    selected = selection if isinstance(selection, dict) else {}
    caveats = selected.get("caveats")
    said = (
        ("What is promised, and to whom", privacy["statement"]),
        ("What binds the aggregators to it", _bound(privacy)),
        ("The noise of each aggregator", result["scale"]),
        ("All results of this question together", privacy["all_releases"]),
        ("Who must be honest", privacy["honest"]),
        ("Who keeps a person in one of several tasks", privacy.get("group")),
        ("When the intervals hold", error["holds"]),
        ("Which values are shown", selected.get("guarantee")),
        *(
            ("What to bear in mind", each)
            for each in (caveats if isinstance(caveats, list) else ())
        ),
        ("The number of reports", result["report_count_source"]),
    )
    return [(name, str(text)) for name, text in said if text]


def _bound(privacy: Document) -> str:
    if privacy["bound_into_reports"]:
        return (
            "The policy is bound into every report: an aggregator that was configured otherwise "
            "opens none. Nothing proves that it adds its noise; an honest one does."
        )
    return (
        "Nothing: the policy is not bound into the reports (bound = false), and an aggregator may "
        "have been configured otherwise."
    )


def _member(document: Mapping[str, object], name: str) -> Document:
    member = document[name]
    assert isinstance(member, dict)  # noqa: S101  results are stored with all their members
    return member
