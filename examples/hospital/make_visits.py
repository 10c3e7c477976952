"""Makes up 3,000 visits in four weeks: python make_visits.py visits.csv survey.toml.

They are the same but for their dates, of which the first is written into the survey. Waiting gets
shorter and satisfaction rises with the weeks.
"""

import csv
import random
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

WEEKS, PER_WEEK = 4, 750
DEPARTMENTS = {"medicine": 45, "surgery": 25, "children": 22, "eyes": 8}


def main(path: str, survey: str) -> None:
    """Write the visits of the last four weeks that are over, and when the survey begins."""
    made = random.Random(2026)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    monday = today - timedelta(days=today.weekday(), weeks=WEEKS)
    begins = rf"\1first = {monday:%Y-%m-%d}\n"
    text = re.sub(r'(window = "week"\n)(first = .*\n)?', begins, Path(survey).read_text("utf-8"))
    Path(survey).write_text(text, "utf-8")
    with Path(path).open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["visited_at", "patient", "department", "waited", "satisfaction"])
        for week in range(WEEKS):
            start = monday + timedelta(weeks=week)
            minutes = sorted(made.sample(range(7 * 24 * 60), PER_WEEK))
            patients = made.sample(range(10_000), PER_WEEK)  # nobody comes twice in a week
            for minute, patient in zip(minutes, patients, strict=True):
                (department,) = made.choices(list(DEPARTMENTS), DEPARTMENTS.values())
                waited = made.gammavariate(2, 24 - 3 * week)
                content = min(5, max(1, round(made.gauss(4.4 - waited / 60, 0.8))))
                rows.writerow(
                    [
                        (start + timedelta(minutes=minute)).isoformat(timespec="minutes"),
                        f"P{patient:04}",
                        department,
                        f"{waited:.0f}",
                        content if made.random() < 0.9 else "",  # one in ten says nothing
                    ]
                )


main(*sys.argv[1:])
