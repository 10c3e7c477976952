"""The names of all settings."""

from aggregator.cli.reference import CLASSES


def setting_names() -> set[str]:
    """Return the names of all settings."""
    return {name for settings in CLASSES.values() for name in settings.model_fields}
