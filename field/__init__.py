"""Prime fields for Prio3: vectors of residues, their bytes, transforms and polynomials.

Other packages import only this module and `field.lanes`, on which `aggregator.vdaf.kernels` and
`aggregator.dp.samplers` build their kernels. The fields and the errors are here at once; whatever
computes comes with numpy and a compiler, and is loaded when the first of its names is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from field.errors import FieldError, ResidueError, ShapeError
from field.fields import FIELD64, FIELD128, Field

if TYPE_CHECKING:
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
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # All at once: `ntt` is also the name of a module, which importing it puts here.
        parts = ("encoding", "ntt", "polynomial", "projection", "vector")
        for found in [vars(import_module(f"field.{part}")) for part in parts]:
            globals().update({each: found[each] for each in __all__ if each in found})
        return globals()[name]


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
