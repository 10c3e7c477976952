"""Every setting as a Markdown table, from the code: `python -m tests.support.settings_table`."""

from pydantic_core import PydanticUndefined

from aggregator.config import (
    AggregatorSettings,
    CollectorSettings,
    HelperSettings,
    LeaderSettings,
    ServiceSettings,
)

SETTINGS: tuple[type[ServiceSettings], ...] = (
    ServiceSettings,
    AggregatorSettings,
    LeaderSettings,
    HelperSettings,
    CollectorSettings,
)


def setting_names() -> set[str]:
    """Return the names of all settings."""
    return {name for settings in SETTINGS for name in settings.model_fields}


def settings_rows(settings: type[ServiceSettings]) -> list[str]:
    """Return a table row for each setting that the class itself declares."""
    return [
        f"| `{name}` | {_default(field.default)} | {field.description} |"
        for name, field in settings.model_fields.items()
        if name in settings.__annotations__ and name != "role"
    ]


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    return "" if value is None else f"`{value}`"


if __name__ == "__main__":
    for kind in SETTINGS:
        print(kind.__name__, "", *settings_rows(kind), "", sep="\n")  # noqa: T201 - a command
