"""Says of a task that it counts what browsers attribute: two extensions of its configuration.

Source: draft-thomson-ppm-dap-attribution.
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Self

from aggregator.dap.extensions import Extension, Extensions, find
from aggregator.dap.profile import CODE_POINTS
from aggregator.errors import ParameterError

_HOST = re.compile("[!-~]{1,253}")


@dataclasses.dataclass(frozen=True, slots=True)
class Attribution:
    """That a task counts what browsers attribute; hosts as they are on the wire, never normalised.

    Attributes:
        collector_identity: The host of the site that collects, or of its intermediary.
        budget_source: The host of the site whose budget pays for the reports.

    Raises:
        ParameterError: One of them is no host.
    """

    collector_identity: str
    budget_source: str

    def __post_init__(self) -> None:
        for name in ("collector_identity", "budget_source"):
            if not _HOST.fullmatch(host := getattr(self, name)):
                raise ParameterError(
                    f"attribution.{name}: must be a host, 1 to 253 visible ASCII characters, "
                    f"not {host!r}"
                )

    @property
    def extensions(self) -> Extensions:
        """The task extensions that say this, in order."""
        return (
            Extension(CODE_POINTS.collector_identity, self.collector_identity.encode()),
            Extension(CODE_POINTS.budget_source, self.budget_source.encode()),
        )

    @classmethod
    def of(cls, extensions: Sequence[Extension]) -> Self | None:
        """Return what a task's extensions say, None if they say nothing of it.

        Raises `ParameterError` if there is only one of the two, or one that is no host.
        """
        identity = find(extensions, CODE_POINTS.collector_identity)
        source = find(extensions, CODE_POINTS.budget_source)
        if identity is None and source is None:
            return None
        if identity is None or source is None:
            raise ParameterError("attribution: needs both collector_identity and budget_source")
        return cls(identity.decode("latin-1"), source.decode("latin-1"))
