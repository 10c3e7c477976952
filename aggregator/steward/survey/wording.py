"""What a survey's page shows that is no part of its task: who asks, and all in other languages."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from aggregator.errors import ParameterError
from aggregator.steward.survey.about import About
from aggregator.steward.survey.form.translations import LANGUAGE, words_in
from aggregator.steward.survey.questions import Question
from aggregator.steward.survey.questions.base import MAY_HAVE_LINES, NumberField
from aggregator.steward.survey.translation import Translation, check_written, translated
from aggregator.untrusted_text import meant

if TYPE_CHECKING:
    from aggregator.client.text.amounts import Amount

_CONFIG = ConfigDict(frozen=True, extra="forbid", strict=True)

OF_LINES = MAY_HAVE_LINES | {"introduction", "thanks"}
"""The members of a survey file whose text may have more than one line."""

Language: TypeAlias = Annotated[str, Field(pattern=LANGUAGE)]


class Wording(BaseModel):
    """What a page shows that is no part of a task.

    Attributes:
        language: That of the title, the questions and `about`.
        about: Who asks.
        translations: Title, questions and `about` in other languages.
        words: The page's own strings, by language, where others than the shipped ones are wanted.
    """

    model_config = _CONFIG

    language: Language = "en"
    about: About = About()
    translations: Mapping[Language, Translation] = {}
    words: Mapping[Language, Mapping[str, str]] = {}

    @property
    def languages(self) -> list[str]:
        """The survey's own language, and then the others in the order of the file."""
        return [self.language, *self.translations]

    def words_of(self, language: str) -> Mapping[str, str]:
        """Return the page's own strings in a language of the survey."""
        return words_in(language, self.words.get(language, {}))

    @property
    def every_about(self) -> list[About]:
        """Who asks, in each language."""
        return [self.about, *(each.about.over(self.about) for each in self.translations.values())]

    def titles(self, title: str) -> list[str]:
        """Return the title in each language."""
        return [title, *(each.title for each in self.translations.values())]

    def texts_of(self, name: str, text: str) -> list[str]:
        """Return a question that people answer in their own words, in each language."""
        return [text, *(each.question[name].text for each in self.translations.values())]

    def amounts_of(self, name: str, amount: "Amount | None") -> list[NumberField]:
        """Return the number that is asked for beside one's own words, in each language, if any."""
        if amount is None:
            return []
        into = [each.question[name].amount for each in self.translations.values()]
        said = [(amount.text, amount.unit), *((each.text, each.unit) for each in into if each)]
        return [NumberField(amount.grid, unit, text) for text, unit in said]

    @property
    def digests(self) -> tuple[tuple[str, str], ...]:
        """The digest of each translation, by language."""
        return tuple(sorted((name, each.digest) for name, each in self.translations.items()))

    def check_bound(self, bound: Sequence[tuple[str, str]]) -> None:
        """Refuse other translations than a task is bound to, given their digests by language.

        Raises `ParameterError` if one is missing, or differs: labels may have been swapped.
        """
        found = dict(self.digests)
        for language, digest in bound:
            if language not in found:
                raise ParameterError(
                    f"translations: {language}: missing, and the survey's tasks are bound to it"
                )
            if found[language] != digest:
                raise ParameterError(
                    f"translations: {language}: is another than the survey's tasks are bound to: "
                    "its title, or a question's text or labels, were changed"
                )

    def check_wording(
        self, questions: Sequence[Question], texts: "Mapping[str, Amount | None]"
    ) -> None:
        """Refuse translations that are incomplete, or of something else, by a ValueError.

        Args:
            questions: All questions but those that people answer in their own words.
            texts: By the names of these, the number that is asked for beside them, if any.
        """
        if self.language in self.translations:
            raise ValueError(f"translations: {self.language} is the survey's own language")
        for name in self.words:
            if name not in self.languages:
                raise ValueError(f"words: the survey is not asked in {name}")
        for name in self.languages:
            self.words_of(name)
        for name, translation in self.translations.items():
            found = list(self._faults(translation, questions, texts))
            if found:
                raise ValueError(f"translations: {name}: {'; '.join(found)}")

    def _faults(
        self,
        translation: Translation,
        questions: Sequence[Question],
        texts: "Mapping[str, Amount | None]",
    ) -> Iterator[str]:
        for name in ("introduction", "thanks"):
            if bool(getattr(self.about, name)) != bool(getattr(translation.about, name)):
                lacks = "missing" if getattr(self.about, name) else "the survey has none"
                yield f"about: {name}: {lacks}"
        by_name: dict[str, Question | None] = {each.name: each for each in questions}
        by_name |= dict.fromkeys(texts)
        for name in translation.question:
            if name not in by_name:
                yield f"question: the survey has no {name!r}{meant(name, by_name)}"
        for name, question in by_name.items():
            if (into := translation.question.get(name)) is None:
                yield f"question {name}: missing"
                continue
            try:
                if question is None:
                    check_written(into, texts[name])
                else:
                    translated(question, into)
            except ValueError as error:
                yield f"question {name}: {error}"

    def questions_in(self, language: str, questions: Sequence[Question]) -> list[Question]:
        """Return questions as they are asked in a language."""
        if language == self.language:
            return [*questions]
        of_names = self.translations[language].question
        return [translated(each, of_names[each.name]) for each in questions]
