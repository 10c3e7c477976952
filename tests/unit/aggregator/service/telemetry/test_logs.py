"""No secret reaches a log line, whatever it is called and wherever it hides."""

import ast
import io
import json
import logging
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import structlog

import aggregator
from aggregator.errors import StoreError
from aggregator.service.telemetry.logs import (
    REFUSED,
    LogFormat,
    configure_logs,
    name_exception,
    refuse_secrets,
)

SECRET = "do-not-show-this"  # noqa: S105 - a test's secret


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    root = logging.getLogger()
    handlers, level, before = root.handlers, root.level, structlog.get_config()
    configure_logs(LogFormat.JSON, "info", "leader")
    yield stream
    root.handlers, root.level = handlers, level
    structlog.configure(**before)


@pytest.mark.parametrize(
    "fields",
    [
        {"token": SECRET},
        {"verify_key": SECRET},
        {"peer_token": SECRET},
        {"seed": SECRET},
        {"input_share": SECRET},
        {"measurement": SECRET},
        {"value": SECRET.encode()},
        {"header": f"Bearer {SECRET}"},
        {"reason": f"sent authorization: bearer {SECRET} to it"},
        {"nested": {"store_key": SECRET}},
        {"several": [SECRET.encode(), (SECRET.encode(),)]},
        {"settings": type("Settings", (), {"__repr__": lambda _: SECRET})()},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_field_that_is_or_may_hold_a_secret_is_refused(
    lines: io.StringIO, fields: dict[str, object]
) -> None:
    structlog.get_logger().warning("event", **fields)
    written = lines.getvalue()
    assert SECRET not in written
    assert REFUSED in written


def test_what_is_meant_for_a_reader_is_written(lines: io.StringIO) -> None:
    structlog.get_logger().info("event", task="abc", reports=3, ok=True, none=None, late=[1, "x"])
    line = json.loads(lines.getvalue())
    assert (line["event"], line["level"]) == ("event", "info")
    assert (line["task"], line["reports"], line["ok"], line["late"]) == ("abc", 3, True, [1, "x"])


def test_an_exception_is_logged_by_name_and_place_without_its_message(lines: io.StringIO) -> None:
    def fail() -> None:
        raise ValueError(SECRET)

    try:
        fail()
    except ValueError:
        structlog.get_logger().exception("it failed")
    written = lines.getvalue()
    assert SECRET not in written
    line = json.loads(written)
    assert line["exception"] == "ValueError"
    assert "test_logs.py" in line["raised_at"][-1]


def test_libraries_lines_go_through_the_same_filter(lines: io.StringIO) -> None:
    try:
        int(SECRET)
    except ValueError:
        logging.getLogger("some.library").exception("failed with bearer %s", SECRET)
    assert SECRET not in lines.getvalue()
    assert "ValueError" in lines.getvalue()


def test_less_serious_lines_are_left_out(lines: io.StringIO) -> None:
    structlog.get_logger().debug("event")
    assert lines.getvalue() == ""


def test_a_database_error_is_named_without_its_message(
    tmp_path: Path,
) -> None:
    connection = sqlite3.connect(tmp_path / "full.sqlite")
    connection.execute("PRAGMA max_page_count = 2")
    connection.execute("CREATE TABLE reports (body)")

    def fail() -> Exception:
        try:
            try:
                connection.execute("INSERT INTO reports VALUES (?)", ("secret" * 10_000,))
            except sqlite3.Error as error:
                raise StoreError("transaction 'upload'") from error
        except StoreError as error:
            return error
        raise AssertionError("two pages were enough")

    event = name_exception(None, "error", {"event": "failed", "exc_info": fail()})
    connection.close()
    assert event["database_error"] == "SQLITE_FULL: the disk is full"
    assert "secret" not in str(event)


def test_an_error_of_a_database_server_is_named_by_its_code() -> None:
    error = StoreError("transaction 'upload'")
    error.__cause__ = psycopg.errors.DiskFull("could not extend file: secret")
    event = name_exception(None, "error", {"event": "failed", "exc_info": error})
    assert event["database_error"] == "SQLSTATE 53100"
    assert "secret" not in str(event)


@pytest.mark.parametrize("log_format", LogFormat)
def test_text_of_others_does_not_act_on_a_terminal(
    lines: io.StringIO, log_format: LogFormat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by a terminal's commands, a C1 control, a deletion or a turned direction."""
    monkeypatch.setattr(sys, "stderr", lines)
    configure_logs(log_format, "info", "leader")
    acting = "/\x1b[2J\x9b31m\x7f\x08\r\u202e"
    structlog.get_logger().info("request", path=acting, nested={acting: [acting]})
    logging.getLogger("a library").warning("of %s", acting)
    written = lines.getvalue()
    assert written.count("\n") == 2
    assert all(each.isprintable() for each in written.replace("\n", ""))
    assert "x1b[2J" in written


def test_every_line_names_the_role(lines: io.StringIO) -> None:
    structlog.get_logger().info("an event")
    logging.getLogger("a library").warning("its own")
    assert [json.loads(line)["role"] for line in lines.getvalue().splitlines()] == ["leader"] * 2


def test_the_level_changes_also_for_a_logger_that_was_used_before(
    lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", lines)
    log = structlog.get_logger()
    log.debug("first")
    configure_logs(LogFormat.JSON, "debug", "leader")
    log.debug("second")
    configure_logs(LogFormat.JSON, "error", "leader")
    log.warning("third")
    assert [json.loads(line)["event"] for line in lines.getvalue().splitlines()] == ["second"]


@pytest.mark.slow
def test_no_line_of_ours_names_a_field_whose_value_is_always_refused() -> None:
    """A person told to bring back the store key `[refused]` cannot know which that is."""
    methods = {"debug", "info", "warning", "error", "exception", "bind"}
    fields = {
        keyword.arg
        for file in Path(aggregator.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
        and ast.unparse(node.func.value).endswith("log")
        for keyword in node.keywords
        if keyword.arg is not None
    }
    assert {"task", "reason"} <= fields
    written = refuse_secrets(None, "", dict.fromkeys(fields, 0))
    assert [name for name, value in written.items() if value == REFUSED] == []
