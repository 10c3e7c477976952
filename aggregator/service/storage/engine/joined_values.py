"""Many values of one size in one string of bytes: a statement of few parameters takes them all.

Never in a text: a database walks through it from its beginning to find each of its parts.
"""

from typing import Any

from sqlalchemy import ColumnElement, Integer, LargeBinary, bindparam, func, literal_column, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement


def numbers() -> ColumnElement[int]:
    """Return a column of the numbers from 0 to below the parameter `count`, which is 1 or more."""
    zero = literal_column("0", Integer()).label("number")
    first = select(zero).cte("numbers", recursive=True)
    more = select(first.c.number + 1).where(
        first.c.number + 1 < bindparam("count", type_=Integer())
    )
    number: ColumnElement[int] = first.union_all(more).c.number
    return number


def part_of(name: str, number: ColumnElement[int], size: int) -> Any:  # noqa: ANN401  SQLAlchemy's own
    """Return the bytes of one value of the parameter `name`, which holds all of them, by number."""
    return func.substr(bindparam(name, type_=LargeBinary()), number * size + 1, size)


def number_in(name: str, number: ColumnElement[int], size: int) -> ColumnElement[int]:
    """Return one value of the parameter `name`, which holds numbers in `size` digits each."""
    return _Digits(part_of(name, number, size))


class _Digits(FunctionElement[int]):
    """The number that bytes write in digits; the databases read it in two ways."""

    type = Integer()
    inherit_cache = True


@compiles(_Digits)
def _cast(element: _Digits, compiler: SQLCompiler, **given: Any) -> str:  # noqa: ANN401  SQLAlchemy's own
    return f"CAST({compiler.process(element.clauses, **given)} AS INTEGER)"


@compiles(_Digits, "postgresql")
def _converted(element: _Digits, compiler: SQLCompiler, **given: Any) -> str:  # noqa: ANN401  as above
    return f"CAST(convert_from({compiler.process(element.clauses, **given)}, 'UTF8') AS INTEGER)"
