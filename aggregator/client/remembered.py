"""What an outbox remembers: whether an entry may be stored beside what is there, and its rows."""

from aggregator.client.contributions import Contribution
from aggregator.client.held_permits import Execute, held, use
from aggregator.client.records import COLUMNS, PLACES, Entry, State, row_of


def refusal(execute: Execute, entry: Entry) -> str | None:
    """Return why an entry is not stored beside those that are there; None if it is."""
    for record in entry.records:
        if record.opening is not None:
            same = execute("SELECT 1 FROM records WHERE key = ?", (record.key,))
            if same.fetchone() is not None:
                return "its permit has a report that waits"
        if record.claim is not None:
            claim = execute(
                "SELECT 1 FROM claims WHERE task = ? AND claim = ?", (record.task, record.claim)
            )
            if claim.fetchone() is not None:
                return f"{record.claim!r} was answered before"
    for holder, needed in entry.permits:
        if held(execute, holder, needed) is None:
            return "its permit was taken by another report"
    return _of_contributions(execute, entry)


def _of_contributions(execute: Execute, entry: Entry) -> str | None:
    """Return which bound on a person an entry would break; None if it breaks none."""
    for each in entry.contributions:
        rows = execute(
            "SELECT time, window_start, window_end, most, reports FROM contributions "
            "WHERE asked = ? AND person = ?",
            (each.asked, each.person),
        )
        known = [
            Contribution(each.asked, each.person, *row)
            for *row, reports in rows
            for _ in range(reports)
        ]
        if (reason := each.refusal(known)) is not None:
            return f"{each.person!r} has answered before: {reason}"
        if each.group is not None:
            found = execute(
                "SELECT place FROM places WHERE person = ? AND name = ?",
                (each.person, each.group.name),
            ).fetchone()
            if found is not None and found[0] != each.group.place:
                return (
                    f"group: {each.person!r} is in place {found[0]} of {each.group.name!r}, so in "
                    f"no task with place {each.group.place}, ever"
                )
    return None


def insert(execute: Execute, entry: Entry) -> None:
    """Store an entry, and what its person has contributed by it."""
    for record in entry.records:
        if record.claim is not None:
            claim = (record.task, record.claim, State.WAITING.value, "")
            execute("INSERT INTO claims VALUES (?, ?, ?, ?)", claim)
        execute(f"INSERT INTO records ({COLUMNS}) VALUES ({PLACES})", row_of(record))  # noqa: S608  names of our own fields
    for holder, needed in entry.permits:
        use(execute, holder, needed)
    if entry.digest is not None:
        execute("INSERT INTO digests VALUES (?, ?)", (entry.records[0].key, entry.digest))
    for each in entry.contributions:
        row = (each.asked, each.person, each.time, each.start, each.end, each.most)
        execute(
            "INSERT INTO contributions VALUES (?, ?, ?, ?, ?, ?, 1) "
            "ON CONFLICT DO UPDATE SET reports = reports + 1",
            row,
        )
        if each.group is not None:
            place = (each.person, each.group.name, each.group.place)
            execute("INSERT OR IGNORE INTO places VALUES (?, ?, ?)", place)
