"""Errors of field operations: a number that is not a residue, a shape that does not fit."""


class FieldError(ValueError):
    """A field operation was given something it does not accept.

    The message names the field, the limit and the place, never a value, which may be a share.
    """


class ResidueError(FieldError):
    """A number that should be a residue does not lie in [0, p)."""


class ShapeError(FieldError):
    """A length or a shape does not fit the operation."""
