"""Prime fields for Prio3: vectors of residues, their bytes, transforms and polynomials.

Other packages import only this module and `field.lanes`, on which `aggregator.vdaf.kernels` and
`aggregator.dp.samplers` build their kernels.
"""

from field.encoding import decode, decode_rows, encode, encode_rows, sample_rows
from field.errors import FieldError, ResidueError, ShapeError
from field.fields import FIELD64, FIELD128, Field
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
    "FIELD64",
    "FIELD128",
    "Field",
    "FieldError",
    "ResidueError",
    "ShapeError",
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
