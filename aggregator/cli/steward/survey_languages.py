"""What a survey says at each place in all its languages, for who compares them."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from aggregator.untrusted_text import escaped

if TYPE_CHECKING:
    from aggregator.steward.survey import Survey


def language_lines(survey: "Survey") -> Iterator[str]:
    """Yield each place of a survey, and below it what it says in each language; none for one."""
    languages = survey.languages
    if len(languages) == 1:
        return
    for place, texts in _places(survey):
        yield place
        for language, text in zip(languages, texts, strict=True):
            yield escaped(f"  {language}  {' / '.join(text.split(chr(10)))}")
    for asked in survey.texts:
        yield f"{asked.name}: what people write in different languages is counted apart"


def _places(survey: "Survey") -> Iterator[tuple[str, Sequence[str]]]:
    from aggregator.steward.survey.said import Own

    yield "title", survey.titles(survey.title)
    of_about = [each.model_dump() for each in survey.every_about]
    for name in of_about[0]:
        texts = [each[name] for each in of_about]
        if any(texts):
            yield f"about {name}", texts
    questions = [each.question for each in survey.questions]
    asked = zip(*(survey.questions_in(each, questions) for each in survey.languages), strict=True)
    for each in asked:
        name = each[0].name
        yield name, [one.text or one.name for one in each]
        for number, options in enumerate(zip(*(one.options for one in each), strict=True), 1):
            texts = [one.text for one in options if isinstance(one, Own)]
            if texts:
                yield f"{name} {number}", texts
        units = [getattr(one, "unit", "") for one in each]
        if any(units):
            yield f"{name} unit", units
        for number, fields in enumerate(zip(*(one.number_fields for one in each), strict=True), 1):
            if fields[0].label:
                yield (
                    f"{name} column {number}",
                    [f"{one.label} {one.unit}".rstrip() for one in fields],
                )
    yield from _written(survey)


def _written(survey: "Survey") -> Iterator[tuple[str, Sequence[str]]]:
    for text in survey.texts:
        yield text.name, survey.texts_of(text.name, text.text or text.name)
        fields = survey.amounts_of(text.name, text.asked_amount)
        if fields:
            yield f"{text.name} amount", [f"{one.label} {one.unit}".rstrip() for one in fields]
