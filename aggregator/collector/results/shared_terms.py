"""Weights of noise of which a large part is the same in many values.

The best estimates of L counts that add up to a known number have the noise of all L in each, which
would be L² weights if each value had its own.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from fractions import Fraction
from typing import TypeAlias, TypeVar

from typing_extensions import override

Weight: TypeAlias = int | Fraction
"""A coefficient; whole numbers are integers, which are many times faster."""

Key = TypeVar("Key", bound=Hashable)

Commons: TypeAlias = dict[int, tuple[Mapping[Key, Weight], Weight]]
"""By identity, what several values have in common, and how many times a value has it."""


class SharedTerms(Mapping[Key, Weight]):
    """A value's own weights, and multiples of what it has in common with others.

    Whoever looks at single weights has all of them added up, once.
    """

    __slots__ = ("_alike", "_all", "common", "own")

    def __init__(self, own: Mapping[Key, Weight], common: Commons[Key]) -> None:
        self.own, self.common = own, common
        self._all: Mapping[Key, Weight] | None = None
        self._alike: Hashable = None

    @property
    def parts(self) -> list[tuple[Mapping[Key, Weight], Weight]]:
        """What is added up: each with the factor that all of its weights have."""
        return [*self.common.values(), (self.own, 1)]

    def alike(self, kind: Callable[[Key], Hashable]) -> Hashable:
        """Return what is equal for two of the same parts in common only if their noise is alike.

        Args:
            kind: Keys of one kind have noise of one law. It is asked once.
        """
        if self._alike is None:
            shared = [each for each, _ in self.common.values()]
            own = Counter(
                (kind(key), weight, *(each.get(key, 0) for each in shared))
                for key, weight in self.own.items()
            )
            factors = frozenset((key, factor) for key, (_, factor) in self.common.items())
            self._alike = frozenset(own.items()), factors
        return self._alike

    @override
    def __getitem__(self, key: Key) -> Weight:
        return self._added()[key]

    @override
    def __iter__(self) -> Iterator[Key]:
        return iter(self._added())

    @override
    def __len__(self) -> int:
        return len(self._added())

    def _added(self) -> Mapping[Key, Weight]:
        if self._all is None:
            self._all = added(self.parts)
        return self._all


def added(parts: list[tuple[Mapping[Key, Weight], Weight]]) -> dict[Key, Weight]:
    """Return the sum of multiples of weights; none in it is zero."""
    terms = dict[Key, Weight]()
    add = Adder()
    for part, factor in parts:
        add.multiple(terms, part, factor)
    return terms if add.is_never_zero else {each: size for each, size in terms.items() if size}


class Adder:
    """Adds weights, many of which are equal: each pair of objects is added only once."""

    def __init__(self) -> None:
        # The addends are kept with the sum, so that no other object gets their identity.
        self._sums: dict[tuple[int, int], tuple[Weight, Weight, Weight]] = {}
        self.is_never_zero = True

    def multiple(
        self, terms: dict[Key, Weight], part: Mapping[Key, Weight], factor: Weight
    ) -> None:
        """Add a multiple of weights, not by 0, to terms."""
        if factor == 1 and not terms:
            # Copying a long sum is cheap, so callers put the sum that many share first.
            terms.update(part)
            return
        products = dict[int, Weight]()
        for key, weight in part.items():
            product = products.get(id(weight))
            if product is None:
                product = products[id(weight)] = factor if weight == 1 else factor * weight
            found = terms.get(key)
            terms[key] = product if found is None else self._sum(found, product)

    def _sum(self, one: Weight, other: Weight) -> Weight:
        found = self._sums.get((id(one), id(other)))
        if found is None:
            made = one + other
            made = made.numerator if made.denominator == 1 else made
            found = self._sums[id(one), id(other)] = one, other, made
            self.is_never_zero = self.is_never_zero and bool(made)
        return found[2]
