"""The two prime fields of Prio3; `field.vector.Vector` holds their elements.

Source: VDAF, "Finite Fields".
"""

import dataclasses

from typing_extensions import override

from field.errors import FieldError


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """A prime field with a large subgroup whose order is a power of two.

    Attributes:
        generator: An element of order 2^two_adicity.
        two_adicity: The largest k such that 2^k divides p - 1.
        words: The 64-bit words of an element in memory.
    """

    name: str
    modulus: int
    generator: int
    two_adicity: int
    encoded_size: int
    words: int

    @property
    def word_shape(self) -> tuple[int, ...]:
        """The axes that an element adds to an array of words: none, or one of two words."""
        return () if self.words == 1 else (self.words,)

    def root_of_unity(self, order: int) -> int:
        """Return the principal root of unity of an order that is a power of two.

        The square of the root of order 2n is the root of order n.

        Raises:
            FieldError: `order` is not a power of two, or the field has no such root.

        Source: VDAF, "NTT-Friendly Fields".
        """
        if order < 1 or order & (order - 1) or order > 1 << self.two_adicity:
            raise FieldError(
                f"{self.name} has roots of unity of order 2^0 to 2^{self.two_adicity}, not {order}"
            )
        return pow(self.generator, (1 << self.two_adicity) // order, self.modulus)

    def inverse(self, number: int) -> int:
        """Return the inverse of a public integer.

        Raises `FieldError` if the number is a multiple of the modulus.
        """
        if number % self.modulus == 0:
            raise FieldError(f"0 has no inverse in {self.name}")
        return pow(number, -1, self.modulus)

    @override
    def __str__(self) -> str:
        return self.name


_P64 = 2**32 * 4294967295 + 1
_P128 = 2**66 * 4611686018427387897 + 1

FIELD64 = Field(
    name="Field64",
    modulus=_P64,
    generator=pow(7, 4294967295, _P64),
    two_adicity=32,
    encoded_size=8,
    words=1,
)
FIELD128 = Field(
    name="Field128",
    modulus=_P128,
    generator=pow(7, 4611686018427387897, _P128),
    two_adicity=66,
    encoded_size=16,
    words=2,
)
