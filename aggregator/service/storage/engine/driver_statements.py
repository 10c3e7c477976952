"""Prepared statements as SQLite's driver takes them: a text and values.

What SQLAlchemy does for each execution takes ten times as long as a short statement, also when
its text is cached. So statements that an upload needs are compiled once, and run without it.
"""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite
from sqlalchemy.exc import DBAPIError, InvalidRequestError
from sqlalchemy.sql.expression import Executable

Values = Mapping[str, object]
_Process = Callable[[Any], Any]


class _DriverStatement:
    """A statement, with the names of its values.

    Attributes:
        text: Its SQL.
        returns_rows: Whether it returns any.
    """

    def __init__(
        self,
        statement: Any,  # noqa: ANN401  any kind
        names: tuple[str, ...],
        lengths: tuple[tuple[str, int], ...],
    ) -> None:
        dialect = SQLiteDialect_pysqlite()
        compiled = statement.compile(dialect=dialect, column_keys=names or None)
        self._required = {each.key for each in compiled.binds.values() if each.required}
        lists = {name: [None] * length for name, length in lengths}
        whole = compiled.construct_expanded_state(dict.fromkeys(self._required) | lists)
        self.text = whole.statement
        of_list = {
            each: (name, place)
            for name, expanded in whole.parameter_expansion.items()
            for place, each in enumerate(expanded)
        }
        self._binds: list[tuple[str, int | None, object, _Process | None]] = []
        for each in whole.positiontup or ():
            name, place = of_list.get(each, (each, None))
            bind = compiled.binds[name]
            process = bind.type.dialect_impl(dialect).bind_processor(dialect)
            self._binds.append((bind.key, place, bind.value, process))
        columns = getattr(statement, "exported_columns", ())
        self.returns_rows = bool(columns)
        types = [each.type.dialect_impl(dialect) for each in columns]
        self._results = [
            (place, process)
            for place, each in enumerate(types)
            if (process := each.result_processor(dialect, None)) is not None
        ]

    def values(self, given: Values) -> list[object]:
        """Return values in the order of their places in the text.

        Raises:
            InvalidRequestError: One is missing; as NULL, it would match no row.
        """
        if not given.keys() >= self._required:
            missing = ", ".join(sorted(self._required - given.keys()))
            raise InvalidRequestError(f"no value is given for {missing}")
        ordered = []
        for name, place, fixed, process in self._binds:
            value: Any = given.get(name, fixed)
            if place is not None:
                value = value[min(place, len(value) - 1)]
            ordered.append(value if process is None else process(value))
        return ordered

    def rows(self, found: list[Any]) -> list[Sequence[Any]]:
        """Return rows with values of the columns' types."""
        for number, row in enumerate(found) if self._results else ():
            values = list(row)
            for place, process in self._results:
                values[place] = process(values[place])
            found[number] = values
        return found


@lru_cache(maxsize=512)
def _driver_statement(
    statement: Executable, names: tuple[str, ...], lengths: tuple[tuple[str, int], ...]
) -> _DriverStatement:
    return _DriverStatement(statement, names, lengths)


def _lengths(values: Values) -> tuple[tuple[str, int], ...]:
    """Return for each list among the values how many it is written for, which are few numbers.

    The last value of a list is repeated up to a power of two.
    """
    return tuple(
        (name, 1 << (len(value) - 1).bit_length() if value else 0)
        for name, value in values.items()
        if isinstance(value, list)
    )


def run(
    connection: Connection, statement: Executable, each: Sequence[Values]
) -> list[Sequence[Any]]:
    """Run a prepared statement once for each of one or more mappings of values; return all rows.

    A list may stand for the values of `IN`, and then there is one mapping.

    Raises:
        SQLAlchemyError: As SQLAlchemy would.
    """
    made = _driver_statement(statement, tuple(each[0]), _lengths(each[0]))
    cursor = connection.connection.cursor()
    try:
        if not made.returns_rows:
            cursor.executemany(made.text, [made.values(values) for values in each])
            return []
        found: list[Any] = []
        for values in each:
            cursor.execute(made.text, made.values(values))
            found += cursor.fetchall()
        return made.rows(found)
    except sqlite3.Error as error:
        raise DBAPIError.instance(None, None, error, sqlite3.Error, hide_parameters=True) from error
    finally:
        cursor.close()
