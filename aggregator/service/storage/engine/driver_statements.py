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

    def __init__(self, statement: Any, names: tuple[str, ...]) -> None:  # noqa: ANN401  any kind
        dialect = SQLiteDialect_pysqlite()
        compiled = statement.compile(dialect=dialect, column_keys=names or None)
        self.text = str(compiled)
        binds = [compiled.binds[name] for name in compiled.positiontup or ()]
        if any(each.expanding for each in binds):
            raise ValueError("a statement with lists of values has no text of its own")
        self._binds: list[tuple[str, object, _Process | None]] = [
            (
                each.key,
                each.value,
                each.type.dialect_impl(dialect).bind_processor(dialect),
            )
            for each in binds
        ]
        self._required = {each.key for each in binds if each.required}
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
        return [
            given.get(name, fixed) if process is None else process(given.get(name, fixed))
            for name, fixed, process in self._binds
        ]

    def rows(self, found: list[Any]) -> list[Sequence[Any]]:
        """Return rows with values of the columns' types."""
        for number, row in enumerate(found) if self._results else ():
            values = list(row)
            for place, process in self._results:
                values[place] = process(values[place])
            found[number] = values
        return found


@lru_cache(maxsize=512)
def _driver_statement(statement: Executable, names: tuple[str, ...]) -> _DriverStatement:
    return _DriverStatement(statement, names)


def run(
    connection: Connection, statement: Executable, each: Sequence[Values]
) -> list[Sequence[Any]]:
    """Run a prepared statement once for each of one or more mappings of values; return all rows.

    Raises:
        SQLAlchemyError: As SQLAlchemy would.
    """
    made = _driver_statement(statement, tuple(each[0]))
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
