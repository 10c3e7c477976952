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
    from field.arithmetic import (
        Vector,
        centre,
        concat,
        decode,
        decode_rows,
        double_evaluations,
        encode,
        encode_rows,
        extend_values_to_power_of_2,
        lagrange_basis,
        lift,
        ntt,
        poly_eval,
        powers,
        project,
        sample_rows,
        stack,
    )
else:

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        arithmetic = import_module("field.arithmetic")
        # All at once: `ntt` is also the name of a module, which importing it puts here.
        globals().update({each: getattr(arithmetic, each) for each in arithmetic.__all__})
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
