"""What a page shows, as lines of Python that run as they stand."""

from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.readings import Reading

_HEAD = 'from aggregator.collector import Collector\n\nwith Collector.open("collector.toml")'


def same_in_python(asked: Asked, shown: Reading) -> str:
    """Return code that shows a question's result in a notebook, beside the collector's settings."""
    if asked.meaning is not None and asked.part is not None and shown.is_of_a_window:
        name, by = asked.part.question.name, asked.part.by
        last = f"print(survey.table({name!r}))  # or .frame(), .plot()"
        if by:
            last = f"print(survey.cross({name!r}, by={by!r}))  # or .frame(), .plot()"
        return (
            f"{_HEAD} as collector:\n"
            f"    survey = collector.survey({asked.meaning.title!r})\n\n"
            f"{last}\n"
        )
    return (
        f"{_HEAD} as collector:\n"
        f'    task = collector.task("{asked.task.task_id}")\n'
        "    results = collector.results(task)\n\n"
        f'name = "{shown.name}"\n'
        '(shown,) = [each for each in results if each.document["collection_id"] == name]\n'
        "print(shown.table())  # or .frame(), .plot()\n"
    )
