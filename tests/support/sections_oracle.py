"""Prio3Sections once more, in plain integers; it shares nothing with the product."""

from dataclasses import dataclass

from tests.support.vdaf_oracle import (
    P128,
    Ints,
    OracleCircuit,
    bit_vector,
    digits,
    groups,
    undigits,
)


@dataclass
class OracleSection:
    """A section and, of a report, its entries, their digits and the numbers that are claimed."""

    kind: str
    numbers: Ints
    entries: int
    largest: int
    """Of an entry."""
    claims: Ints
    """Of each number that is claimed, the largest."""

    def of(self, meas: Ints) -> list[Ints]:
        """Take the digits of all entries off an encoding."""
        bits = self.largest.bit_length()
        return groups([meas.pop(0) for _ in range(self.entries * bits)], bits)

    def claimed(self, meas: Ints) -> Ints:
        """Take the numbers that are claimed off an encoding."""
        return [
            undigits([meas.pop(0) for _ in range(most.bit_length())], most) for most in self.claims
        ]


def read(text: str) -> list[OracleSection]:
    found: list[OracleSection] = []
    for word in text.split():
        kind, _, rest = word.partition(":")
        numbers = [int(number) for number in rest.split(",")]
        last = numbers[-1]
        if kind == "table":
            size = found[numbers[0]].entries * found[numbers[1]].entries
        else:
            size = {"number": 1, "given": numbers[-2] if numbers[1:] else 0}.get(kind, numbers[0])
        largest = last if kind in ("number", "bygroup", "given") else 1
        claims = {"given": [last.bit_length()] * size, "atmost": [last], "bygroup": [last]}
        found.append(OracleSection(kind, numbers, size, largest, claims.get(kind, [])))
    return found


def to_claim(section: OracleSection, parts: list[Ints], own: Ints) -> Ints:
    if section.kind != "given":
        return [sum(own)] * len(section.claims)
    answers = parts[section.numbers[0]]
    return [
        most * answer - sum(digits(value, section.largest))
        for most, answer, value in zip(section.claims, answers, own, strict=False)
    ]


def encode(sections: list[OracleSection], values: Ints) -> Ints:
    left = list(values)
    parts = [[int(left.pop(0)) for _ in range(section.entries)] for section in sections]
    assert not left
    summed, claimed = [], []
    for section, own in zip(sections, parts, strict=True):
        summed += [digit for value in own for digit in digits(value, section.largest)]
        numbers = zip(to_claim(section, parts, own), section.claims, strict=True)
        claimed += [digit for number, most in numbers for digit in digits(number, most)]
    return summed + claimed


def checks(sections: list[OracleSection], meas: Ints, one: int) -> Ints:
    left, outputs = list(meas), []
    parts = [section.of(left) for section in sections]
    for section, own in zip(sections, parts, strict=True):
        claimed = section.claimed(left)
        values = [undigits(entry, section.largest) for entry in own]
        if section.kind == "onehot":
            outputs.append(sum(values) - one)
        elif section.kind in ("atmost", "bygroup"):
            outputs.append(sum(values) - claimed[0])
        elif section.kind == "given":
            of = parts[section.numbers[0]]
            for place, (entry, slack) in enumerate(zip(own, claimed, strict=True)):
                outputs.append(sum(entry) + slack - section.claims[place] * of[place][0])
        elif section.kind == "table":
            down, across = (parts[number] for number in section.numbers)
            rows = groups(values, len(across))
            outputs += [sum(row) - of[0] for row, of in zip(rows, down, strict=True)]
            columns = zip(*rows, strict=True)
            outputs += [sum(column) - by[0] for column, by in zip(columns, across, strict=True)]
    return outputs


def truncate(sections: list[OracleSection], meas: Ints) -> Ints:
    left = list(meas)
    return [undigits(x, section.largest) for section in sections for x in section.of(left)]


def sections(sections: str, chunk_length: int) -> OracleCircuit:
    """All that is summed, section after section; then all that is claimed."""
    made = read(sections)
    return bit_vector(
        P128,
        sum(x.entries * x.largest.bit_length() for x in made)
        + sum(most.bit_length() for x in made for most in x.claims),
        chunk_length,
        lambda values: encode(made, values),
        lambda meas: truncate(made, meas),
        lambda meas, one: checks(made, meas, one),
    )
