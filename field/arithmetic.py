"""What computes with residues, all of which `field` loads together, when the first is asked for."""

from field.encoding import decode, decode_rows, encode, encode_rows, sample_rows
from field.ntt import ntt
from field.polynomial import (
    double_evaluations,
    extend_values_to_power_of_2,
    lagrange_basis,
    poly_eval,
    powers,
)
from field.projection import centre, lift, project
from field.vector import Vector, concat, stack

__all__ = [
    "Vector",
    "centre",
    "concat",
    "decode",
    "decode_rows",
    "double_evaluations",
    "encode",
    "encode_rows",
    "extend_values_to_power_of_2",
    "lagrange_basis",
    "lift",
    "ntt",
    "poly_eval",
    "powers",
    "project",
    "sample_rows",
    "stack",
]
