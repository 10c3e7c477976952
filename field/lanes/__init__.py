"""Reports side by side: words of many reports in one vector register, one lane per report.

`aggregator.vdaf.kernels` and `aggregator.dp.samplers` build their kernels on this package and
import nothing deeper. `field64` and `field128` have the operations on residues, `limbs128` the
bounds of sums in Field128, and `limbs51` the field of Curve25519.
"""

from field.lanes import field64, field128, limbs51, limbs128
from field.lanes.arrays import (
    CACHE_LINE_SIZE,
    MAX_LANES,
    WORD_SIZE,
    Bytes,
    LaneArray,
    Table,
    new_lane_array,
)
from field.lanes.cache import KernelCache, kernel_cache
from field.lanes.compiling import KernelMissing, compile_here, is_looking, looking_for_kernels
from field.lanes.jit import (
    LaneWidth,
    add_carry,
    allocating_kernel,
    has_multiply_add,
    inlined,
    kernel,
    lane_width,
    lanes,
    multiply_wide,
    opaque,
    subtract_borrow,
    with_plain,
)
from field.lanes.limbs26 import Limbs26
from field.lanes.limbs52 import Limbs52
from field.lanes.limbs128 import Limbs
from field.lanes.operations import copy_words, operation, operation_over, xor_words
from field.lanes.residues import Residues
from field.lanes.rows import copy_rows, fetch_part, rows_to_words, transposed, words_to_rows
from field.lanes.sha256 import INITIAL_STATE as SHA256_INITIAL_STATE
from field.lanes.sha256 import compress, has_sha256
from field.lanes.words import Code, Integer, Place, Rows, Scalars, Variables, Word
from field.lanes.workspaces import Workspace, cut, new_workspace, row_ends

__all__ = [
    "CACHE_LINE_SIZE",
    "MAX_LANES",
    "SHA256_INITIAL_STATE",
    "WORD_SIZE",
    "Bytes",
    "Code",
    "Integer",
    "KernelCache",
    "KernelMissing",
    "LaneArray",
    "LaneWidth",
    "Limbs",
    "Limbs26",
    "Limbs52",
    "Place",
    "Residues",
    "Rows",
    "Scalars",
    "Table",
    "Variables",
    "Word",
    "Workspace",
    "add_carry",
    "allocating_kernel",
    "compile_here",
    "compress",
    "copy_rows",
    "copy_words",
    "cut",
    "fetch_part",
    "field64",
    "field128",
    "has_multiply_add",
    "has_sha256",
    "inlined",
    "is_looking",
    "kernel",
    "kernel_cache",
    "lane_width",
    "lanes",
    "limbs51",
    "limbs128",
    "looking_for_kernels",
    "multiply_wide",
    "new_lane_array",
    "new_workspace",
    "opaque",
    "operation",
    "operation_over",
    "row_ends",
    "rows_to_words",
    "subtract_borrow",
    "transposed",
    "with_plain",
    "words_to_rows",
    "xor_words",
]
