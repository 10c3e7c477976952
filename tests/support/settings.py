"""The names of all settings."""

from tests.support.reference import CLASSES


def setting_names() -> set[str]:
    """Return the names of all settings."""
    return {name for settings in CLASSES.values() for name in settings.model_fields}
