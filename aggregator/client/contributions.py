"""Holds one person to the reports that a task allows, with a file that counts before sending.

A task's guarantee is for `max_reports_per_person` reports of one person in a batch. Aggregators see
reports, not persons, so the software that makes a person's reports enforces the bound, with one
file for each person and device. It cannot recognise the same person on another device.

If the task's policy has a window, a batch is one window, and both aggregators refuse any other: the
bound is per window, and `max_batches_per_person` limits the number of windows with a report.
Without a window, the collector or the leader decides later which reports share a batch. The bound
is then on all reports of the person for the task, for ever, and they cost no more than one release.

A changed survey is a new task for the same people. Reports for the old and the new task are counted
together, by the survey's title and who is asked, so nobody is in both within one window. So are
other tasks, under a common name. Tasks that are counted together may have different windows:
reports are held to the windows of each task that one was ever counted for.

In a group of tasks a person keeps one place for ever: the first task that a report is counted for
decides it, and tasks of other places are refused. So nobody pays for two places, even if a task
calls unrelated tasks a group.

Reports are counted on disk before they are sent, and never uncounted: a crash in between costs the
person's chance to be counted, not their privacy. A refusal does not uncount one either, since it is
only the leader's word, which may be false.
"""

import contextlib
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aggregator.client.window_claims import survey_name
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.protocol.task import Task

_FILE_VERSION = 1
_OWNER_ONLY = 0o600

_GROUPS = "groups"
_BOUNDS = "bounds"

_Places = dict[str, int]
"""The place of the person in each group."""

_Tasks = dict[str, dict[str, int]]
"""Numbers of reports by task identifier and unit of the task's time, as in the JSON file. A survey
has its title and who is asked as a key, and tasks that are counted together have their common name;
the second in which the unit begins then takes the unit's place."""

_Bounds = dict[str, list[list[int | None]]]
"""For each common name, the bounds of its tasks, as `_bound_of` returns them."""


class TooManyReports(ParameterError):
    """More reports of one person than the task allows; nothing was counted or sent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Contributions:
    """What one person has sent from this device.

    The file is made when something is first counted. A file beside it, ending in .lock, keeps two
    processes from counting at once.
    """

    path: Path

    def count(self, task: Task, reports: int, seconds: int, *, under: str | None = None) -> None:
        """Count reports that are about to be sent; the count is on disk when this returns.

        Args:
            task: The task they are for.
            reports: How many.
            seconds: Their time, in seconds since the epoch.
            under: A common name for several tasks of one place: their reports are counted together
                too, and one person may have no more in all than any of the tasks allows.

        Raises:
            TooManyReports: There would be more than the task allows one person, or the person is in
                another place of the task's group.
            ConfigurationError: The file cannot be read or written, or is not such a file: it is
                never replaced by an empty one, since its counts would be lost.
        """
        with self._locked():
            tasks, places, bounds = self._read()
            group = task.policy.group
            if group is not None and places.setdefault(group.name, group.place) != group.place:
                raise TooManyReports(
                    f"group: this person is in place {places[group.name]} of {group.name!r}, so in "
                    f"no task with place {group.place}, ever"
                )
            survey = survey_name(task.meaning)
            names = [(survey or str(task.task_id), survey is not None)]
            names += [] if under is None else [(under, True)]
            for name, is_shared in names:
                counted = tasks.setdefault(name, {})
                precision = task.time_precision if is_shared else 1
                unit = str(task.time(seconds).units * precision)
                counted[unit] = counted.get(unit, 0) + reports
                of_unit = Counter[int]()
                for second, count in counted.items():
                    of_unit[int(second) // precision] += count
                _check(task, of_unit)
                if is_shared:
                    known, own = bounds.setdefault(name, []), _bound_of(task)
                    if own not in known:
                        known.append(own)
                    _check_bounds(known, counted)
            self._write(tasks, places, bounds)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Wait until no other process counts in this file; a process that dies holds no lock."""
        # Imported only where reports are counted: Windows does not have it.
        import fcntl

        lock = self.path.with_name(self.path.name + ".lock")
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, _OWNER_ONLY)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _read(self) -> tuple[_Tasks, _Places, _Bounds]:
        try:
            document = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}, {}, {}
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error
        except (ValueError, RecursionError) as error:
            raise self._unusable("not JSON") from error
        tasks = document.get("tasks") if isinstance(document, dict) else None
        if not isinstance(tasks, dict) or document.get("version") != _FILE_VERSION:
            raise self._unusable(f"not version {_FILE_VERSION} of a file of reports counted")
        if not all(_is_count(counted) for counted in tasks.values()):
            raise self._unusable("a count is not a number")
        places = document.get(_GROUPS, {})
        if not isinstance(places, dict) or not all(type(place) is int for place in places.values()):
            raise self._unusable("a place in a group is not a number")
        bounds = document.get(_BOUNDS, {})
        if not isinstance(bounds, dict) or not all(map(_are_bounds, bounds.values())):
            raise self._unusable("a bound is none of a task")
        return tasks, places, bounds

    def _write(self, tasks: _Tasks, places: _Places, bounds: _Bounds) -> None:
        """Replace the old file by the new one, whole and on disk or not at all."""
        draft = self.path.with_name(self.path.name + ".new")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER_ONLY)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                document = {"version": _FILE_VERSION, "tasks": tasks}
                some = {_GROUPS: places} if places else {}
                json.dump(document | some | ({_BOUNDS: bounds} if bounds else {}), file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise self._unusable(str(error.strerror)) from error

    def _unusable(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"the count of reports {self.path}: {reason}")


def _check(task: Task, counted: Mapping[int, int]) -> None:
    """Refuse counts by unit of time that exceed what a task allows one person."""
    policy = task.policy
    most, batches, window = (
        policy.max_reports_per_person,
        policy.max_batches_per_person,
        policy.window,
    )
    if window is None:
        total = sum(counted.values())
        if total > most:
            raise TooManyReports(
                f"max_reports_per_person: {total} reports of one person for this task, {most} "
                "allowed for ever, since the task has no window"
            )
        return
    windows: Counter[int] = Counter()
    for unit, count in counted.items():
        windows[window.first_unit(unit)] += count
    if max(windows.values()) > most:
        raise TooManyReports(
            f"max_reports_per_person: {max(windows.values())} reports of one person in one window, "
            f"{most} allowed"
        )
    if batches is not None and len(windows) > batches:
        raise TooManyReports(
            f"max_batches_per_person: reports of one person in {len(windows)} windows, "
            f"{batches} allowed"
        )


def _bound_of(task: Task) -> list[int | None]:
    """Return how many reports of one person a task takes, and its windows in seconds, if any."""
    window, unit = task.policy.window, task.time_precision
    windows = (None, None) if window is None else (window.length * unit, window.start * unit)
    return [task.policy.max_reports_per_person, *windows]


def _check_bounds(bounds: Sequence[Sequence[int | None]], counted: Mapping[str, int]) -> None:
    """Refuse counts by second that exceed what one of several tasks allows one person."""
    for most, length, start in bounds:
        windows: Counter[int] = Counter()
        for second, count in counted.items():
            windows[0 if length is None else (int(second) - (start or 0)) // length] += count
        if max(windows.values()) > (most or 0):
            raise TooManyReports(
                f"max_reports_per_person: {max(windows.values())} reports of one person, {most} "
                "allowed in a window of another task that they are counted with"
            )


def _are_bounds(bounds: object) -> bool:
    return isinstance(bounds, list) and all(
        isinstance(each, list)
        and [type(number) for number in each] in ([int] * 3, [int, type(None), type(None)])
        and each[1] != 0
        for each in bounds
    )


def _is_count(counted: object) -> bool:
    return isinstance(counted, dict) and all(
        unit.isdecimal() and isinstance(count, int) and count >= 0
        for unit, count in counted.items()
    )
