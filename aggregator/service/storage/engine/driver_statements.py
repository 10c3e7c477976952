"""Prepared statements as a database's driver takes them: a text and values.

What SQLAlchemy does for each execution takes ten times as long as a short statement, even if
its text is cached. So the statements that reports need are compiled once, and run without it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect
from sqlalchemy.dialects import registry
from sqlalchemy.exc import DBAPIError, InvalidRequestError, StatementError
from sqlalchemy.sql.expression import Executable

AS_BYTES = "as_bytes"
"""An option of statements that read long values: whether the database sends values in binary.

Each column of such a statement must be bytes or an integer."""

Values = Mapping[str, object]
_Process = Callable[[Any], Any]


class _DriverStatement:
    """A statement, with the names of its values.

    Attributes:
        text: Its SQL.
        returns_rows: Whether it returns any.
        options: Its execution options.
    """

    def __init__(
        self,
        dialect: Dialect,
        statement: Any,  # noqa: ANN401  any kind
        names: tuple[str, ...],
        lengths: tuple[tuple[str, int], ...],
    ) -> None:
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
        self._names = None if dialect.positional else [*whole.parameters]
        for each in whole.positiontup or whole.parameters:
            name, place = of_list.get(each, (each, None))
            bind = compiled.binds[name]
            process = bind.type.dialect_impl(dialect).bind_processor(dialect)
            self._binds.append((bind.key, place, bind.value, process))
        plain = all(place is None and process is None for _, place, _, process in self._binds)
        self._plain = [(name, fixed) for name, _, fixed, _ in self._binds] if plain else None
        self.options = statement.get_execution_options()
        columns = getattr(statement, "exported_columns", ())
        self.returns_rows = bool(columns)
        types = [each.type.dialect_impl(dialect) for each in columns]
        self._results = [
            (place, process)
            for place, each in enumerate(types)
            if (process := each.result_processor(dialect, None)) is not None
        ]

    def values(self, given: Values) -> list[object] | dict[str, object]:
        """Return values in the order of their places in the text, or by their names there.

        Raises:
            InvalidRequestError: One is missing; as NULL, it would match no row.
        """
        if not given.keys() >= self._required:
            missing = ", ".join(sorted(self._required - given.keys()))
            raise InvalidRequestError(f"no value is given for {missing}")
        if self._plain is not None and self._names is None:  # as most of SQLite's
            return [given.get(name, fixed) for name, fixed in self._plain]
        ordered = []
        for name, place, fixed, process in self._binds:
            value: Any = given.get(name, fixed)
            if place is not None:
                value = value[min(place, len(value) - 1)]
            ordered.append(value if process is None else process(value))
        return ordered if self._names is None else dict(zip(self._names, ordered, strict=True))

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
    driver: str,
    statement: Executable,
    names: tuple[str, ...],
    lengths: tuple[tuple[str, int], ...],
) -> _DriverStatement:
    return _DriverStatement(registry.load(driver)(), statement, names, lengths)


def _lengths(values: Values) -> tuple[tuple[str, int], ...]:
    """Return, for each list among the values, how many values its text has room for.

    The last value of a list is repeated up to a power of two, so there are few texts.
    """
    for some in values.values():
        if isinstance(some, list):
            break
    else:  # as most have none
        return ()
    return tuple(
        (name, 1 << (len(value) - 1).bit_length() if value else 0)
        for name, value in values.items()
        if isinstance(value, list)
    )


def run(
    connection: Connection,
    statement: Executable,
    each: Sequence[Values],
    cursor_of: Callable[[Any, Mapping[str, Any]], Any] = lambda raw, _: raw.cursor(),
) -> list[Sequence[Any]]:
    """Run a prepared statement once for each of one or more mappings of values; return all rows.

    A list may stand for the values of `IN`, and then there is one mapping.

    Args:
        connection: The connection, in a transaction.
        statement: The statement.
        each: Its values.
        cursor_of: Makes a cursor of the driver's connection, given the statement's options.

    Raises:
        SQLAlchemyError: As SQLAlchemy would.
    """
    dialect = connection.dialect
    driver = f"{dialect.name}.{dialect.driver}"
    made = _driver_statement(driver, statement, (*each[0],), _lengths(each[0]))
    cursor = cursor_of(connection.connection.dbapi_connection, made.options)
    try:
        if not made.returns_rows:
            if len(each) == 1:
                cursor.execute(made.text, made.values(each[0]))
            else:
                cursor.executemany(made.text, [made.values(values) for values in each])
            return []
        found: list[Any] = []
        for values in each:
            cursor.execute(made.text, made.values(values))
            found += cursor.fetchall()
        return made.rows(found)
    except dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, cursor, error) from error
    finally:
        cursor.close()


def run_text(
    connection: Connection, text: str, values: Sequence[object] | None = None
) -> Sequence[Sequence[Any]]:
    """Run a text as it is.

    Args:
        connection: The connection, in a transaction.
        text: The SQL.
        values: Its values, in the order of their places.

    Returns:
        Its rows, if it has any.

    Raises:
        SQLAlchemyError: As SQLAlchemy would.
    """
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text) if values is None else cursor.execute(text, values)
        found: Sequence[Sequence[Any]] = cursor.fetchall() if cursor.description else []
    except connection.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, cursor, error) from error
    finally:
        cursor.close()
    return found


def _as_sqlalchemy(connection: Connection, cursor: Any, error: Any) -> StatementError:  # noqa: ANN401  any driver's
    """Return a driver's error as SQLAlchemy would raise it."""
    dialect = connection.dialect
    is_gone = dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor)
    if is_gone:
        connection.invalidate(error)
    made: StatementError = DBAPIError.instance(
        None,
        None,
        error,
        dialect.loaded_dbapi.Error,
        hide_parameters=True,
        connection_invalidated=is_gone,
    )
    return made
