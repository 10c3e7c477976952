"""Prio3Sections: everything that a person is asked, in one measurement.

A measurement is a sequence of sections: answers to questions, sets of labels, numbers, numbers of
people who gave an answer, and tables of two answers. All have one proof. An encoding has the summed
residues of all sections first, then the claimed ones, so that one section alone has the encoding of
the draft's type of that kind.

The type is this project's own, with a private code point. Its linear checks are outputs of the
circuit, combined by query randomness as the draft combines several; docs/protocol.md has the proof.

Source:
    VDAF, "Prio3MultihotCountVec", whose checks these generalise.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from typing_extensions import override

from aggregator.errors import ParameterError
from aggregator.vdaf.circuits import section_lists
from aggregator.vdaf.circuits.bit_vector import ChunkedBitsCircuit
from aggregator.vdaf.circuits.linear_form import Block, LinearCheck, LinearForm
from aggregator.vdaf.circuits.measurements import Measurement, MeasurementError, vectors
from aggregator.vdaf.circuits.range_checked import encode_range_checked
from aggregator.vdaf.circuits.section_base import Place, Section, SectionMisfit
from aggregator.vdaf.circuits.section_numbers import Given
from field import FIELD128

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.vdaf.circuits.base import Run
    from aggregator.vdaf.circuits.section_base import Values
    from field import Field, Vector


class Layout(NamedTuple):
    """What follows from a list of sections.

    Attributes:
        sections: The sections.
        meas_len: Residues of an encoding.
        output_len: Entries of all sections.
        form: What is summed and checked.
    """

    sections: section_lists.Sections
    meas_len: int
    output_len: int
    form: LinearForm


@functools.lru_cache(maxsize=64)
def layout(text: str) -> Layout:
    """Return the layout of the sections that a text names.

    Raises:
        ParameterError: See `section_lists.sections_of_text`.
    """
    sections = section_lists.sections_of_text(text)
    summed = list(itertools.accumulate((each.summed for each in sections), initial=0))
    claimed = itertools.accumulate((each.claims for each in sections), initial=summed[-1])
    places = [Place(*each) for each in zip(summed, claimed, strict=True)]
    checks: list[LinearCheck] = []
    for index, section in enumerate(sections):
        checks += section.checks(places, index)
    blocks = [
        Block(sum(each.output_len for each in run), digits)
        for digits, run in itertools.groupby(sections, lambda each: each.digits)
    ]
    return Layout(
        sections,
        meas_len=places[-1].claimed,
        output_len=sum(each.output_len for each in sections),
        form=LinearForm(tuple(blocks), tuple(checks)),
    )


@dataclass(frozen=True, slots=True)
class Sections(ChunkedBitsCircuit):
    """Lists of `output_len` integers, what a person adds to each sum, section after section.

    Valid if every residue is 0 or 1 and every section's checks hold.
    """

    sections: str
    chunk_length: int

    name: ClassVar[str] = "Sections"
    field: ClassVar[Field] = FIELD128

    @override
    def __post_init__(self) -> None:
        ChunkedBitsCircuit.__post_init__(self)
        if not isinstance(self.sections, str):
            raise ParameterError(f"sections must be text, not {self.sections!r}")
        # Equal sections are equal text.
        text = section_lists.text_of_sections(section_lists.sections_of_text(self.sections))
        object.__setattr__(self, "sections", text)

    @property
    @override
    def meas_len(self) -> int:
        return layout(self.sections).meas_len

    @property
    @override
    def output_len(self) -> int:
        return layout(self.sections).output_len

    @property
    @override
    def eval_output_len(self) -> int:
        return 1 + len(layout(self.sections).form.checks)

    @override
    def parts(self) -> Sequence[Section]:
        return layout(self.sections).sections

    @override
    def encode(self, measurements: Sequence[Measurement]) -> Vector:
        import numpy as np

        from field import concat

        sections = self.parts()
        values = vectors(measurements, self.output_len, max(each.largest for each in sections))
        ends = list(itertools.accumulate(each.output_len for each in sections))
        parts: list[Values] = np.split(values, ends[:-1], axis=1)
        summed, claimed = [], []
        for index, section in enumerate(sections):
            _check(sections, parts, index)
            coded = encode_range_checked(self.field, parts[index], section.largest)
            summed.append(coded.reshape(len(values), section.summed))
            if (claim := section.claim(parts, index)) is not None:
                coded = encode_range_checked(self.field, claim.values, claim.largest)
                claimed.append(coded.reshape(len(values), section.claims))
        return concat([*summed, *claimed])

    @override
    def evaluate(self, gadget_outputs: Vector, meas: Vector, num_shares: int) -> Vector:
        from field import stack

        checks = layout(self.sections).form.checks
        outputs = [self._evaluate_check(check, meas, num_shares) for check in checks]
        return stack([gadget_outputs.sum(axis=1), *outputs], axis=1)

    def _evaluate_check(self, check: LinearCheck, meas: Vector, num_shares: int) -> Vector:
        from field import Vector

        share_of_constant = check.constant * self.field.inverse(num_shares) % self.field.modulus
        total = Vector.zeros(self.field, (len(meas),)) + share_of_constant
        for term in check.terms:
            residues = meas[:, term.first : term.end : term.step]
            if term.weights == (1,):
                total = total + residues.sum(axis=1)
            else:
                weights = [weight % self.field.modulus for weight in term.weights_of_all()]
                total = total + residues.dot(Vector.from_ints(self.field, weights))
        return total

    @override
    def truncate(self, meas: Vector) -> Vector:
        from field import Vector, concat

        parts, first = [], 0
        for entries, weights in layout(self.sections).form.blocks:
            end = first + entries * len(weights)
            digits = meas[:, first:end].reshape(len(meas), entries, len(weights))
            parts.append(digits.dot(Vector.from_ints(self.field, weights)))
            first = end
        return concat(parts)

    @override
    def linear_form(self) -> LinearForm:
        return layout(self.sections).form

    @override
    def furthest(self) -> Sequence[Run]:
        # The furthest of each section, as docs/privacy.md proves; they fit together.
        return [run for section in self.parts() for run in section.furthest()]

    @override
    def given_by(self) -> dict[int, int]:
        sections = self.parts()
        starts = [0, *itertools.accumulate(section.output_len for section in sections)]
        return {
            starts[index] + entry: starts[section.of] + entry
            for index, section in enumerate(sections)
            if isinstance(section, Given)
            for entry in range(section.entries)
        }

    @property
    @override
    def most_entries(self) -> int:
        return sum(section.most_entries for section in self.parts())


def _check(sections: Sequence[Section], parts: Sequence[Values], index: int) -> None:
    """Refuse measurements that do not fit a section; earlier sections have been checked.

    Raises:
        MeasurementError: One does not fit; the message names the section and its limit.
    """
    import numpy as np

    section, part, largest = sections[index], parts[index], sections[index].largest
    named = f"section {index}, {section.text}"
    for row, entry in np.argwhere(part > np.uint64(largest)).tolist()[:1]:
        raise MeasurementError(
            row, f"entry {entry} of {named} must be from 0 to {largest}, not {part[row, entry]}"
        )
    try:
        section.check(parts, index)
    except SectionMisfit as misfit:
        row = int(misfit.which.argmax())
        raise MeasurementError(row, f"in {named}, {misfit.problem}: {part[row].tolist()}") from None
