"""Many values of one size in one string of bytes: a statement of few parameters takes them all."""

from typing import Any

from sqlalchemy import ColumnElement, Integer, LargeBinary, bindparam, func, literal_column, select


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
