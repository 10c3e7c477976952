import pytest

from field import FIELD64, FIELD128, Field, FieldError
from tests.support.residues import FIELDS


def test_the_moduli_are_the_specifications() -> None:
    assert FIELD64.modulus == 2**32 * 4294967295 + 1 == 2**64 - 2**32 + 1
    assert FIELD128.modulus == 2**66 * 4611686018427387897 + 1 == 2**128 - 28 * 2**64 + 1


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_the_modulus_is_prime(field: Field) -> None:
    # Proth: if p - 1 = 2^k m with odd m < 2^k, any a with a^((p - 1) / 2) = -1 proves p prime.
    p = field.modulus
    odd = (p - 1) >> field.two_adicity
    assert odd % 2 == 1
    assert odd < 1 << field.two_adicity
    assert pow(7, (p - 1) // 2, p) == p - 1


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_the_generator_has_exactly_the_order_of_the_two_adic_subgroup(field: Field) -> None:
    p, order = field.modulus, 1 << field.two_adicity
    assert (p - 1) % order == 0
    assert (p - 1) // order % 2 == 1
    assert pow(field.generator, order // 2, p) == p - 1
    assert field.generator == pow(7, (p - 1) // order, p)


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_the_square_of_a_root_is_the_root_of_half_the_order(field: Field) -> None:
    assert field.root_of_unity(1) == 1
    assert field.root_of_unity(2) == field.modulus - 1
    assert field.root_of_unity(1 << field.two_adicity) == field.generator
    for exponent in range(1, field.two_adicity + 1):
        root = field.root_of_unity(1 << exponent)
        assert pow(root, 2, field.modulus) == field.root_of_unity(1 << (exponent - 1))


@pytest.mark.parametrize("field", FIELDS, ids=str)
@pytest.mark.parametrize("order", [-2, 0, 3, 6, 1 << 67])
def test_an_order_without_a_root_is_refused(field: Field, order: int) -> None:
    with pytest.raises(FieldError, match=f"{field.name} has roots of unity"):
        field.root_of_unity(order)


@pytest.mark.parametrize("field", FIELDS, ids=str)
def test_every_residue_but_zero_has_an_inverse(field: Field) -> None:
    for number in (1, 2, 3, field.modulus - 1, field.modulus + 2, -5):
        assert field.inverse(number) * number % field.modulus == 1
    for number in (0, field.modulus, -field.modulus):
        with pytest.raises(FieldError, match="no inverse"):
            field.inverse(number)
