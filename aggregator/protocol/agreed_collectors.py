"""The collectors of an agreement: whom results are sealed to, and who may ask for them.

One has no name, and collects the tasks that name nobody. The others have the identity that tasks of
attribution name, each in a table of the partner's:

    [[partner.collector]]
    identity = "shop.example"
    hpke_config = "…"
    max_tasks = 10
    max_open_jobs = 20  # at the leader
    token = "…"         # at the leader

Source: draft-thomson-ppm-dap-attribution.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from aggregator.dap.attribution import Attribution
from aggregator.dap.auth import check_token, hash_token
from aggregator.dap.hpke import HpkeConfig
from aggregator.dap.profile import Role
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import collector_config_from_text
from aggregator.protocol.toml_table import TomlTable


@dataclasses.dataclass(frozen=True, slots=True)
class AgreedCollector:
    """A collector of a partner's tasks.

    Attributes:
        hpke_config: Whom results are sealed to.
        tokens: What it may show to the leader, if that is us: one, or two while it is replaced.
        identity: By which tasks name it; empty for the one whose tasks name nobody, who has only
            the limits that all tasks have.
        max_tasks: How many tasks may name it.
        max_open_jobs: How many collections of all these may be under way, if we are the leader.
    """

    hpke_config: HpkeConfig
    tokens: tuple[str, ...] = dataclasses.field(repr=False)
    identity: str = ""
    max_tasks: int = 0
    max_open_jobs: int = 0

    @property
    def token_hashes(self) -> list[bytes]:
        """The SHA-256 of each of its tokens."""
        return [hash_token(each) for each in self.tokens]


AgreedCollectors = Mapping[str | None, AgreedCollector]
"""A partner's collectors by identity; None for the one whose tasks name nobody."""


def read_collectors(
    unnamed: AgreedCollector | None, tables: Sequence[TomlTable], role: Role
) -> AgreedCollectors:
    """Return the collectors of a partner, of whom at least one must be given.

    Raises:
        ParameterError: A table has a mistake, or two parties have one token or name.
    """
    found: dict[str | None, AgreedCollector] = {} if unnamed is None else {None: unnamed}
    for table in tables:
        collector = _collector(table, role)
        identity = collector.identity
        if found.setdefault(identity, collector) is not collector:
            raise ParameterError(f"identity: {identity!r} has two tables")
    if not found:
        raise ParameterError("collector_hpke_config: missing, and there is no table of a collector")
    shown = [token for each in found.values() for token in each.tokens]
    if len({*shown}) != len(shown):
        raise ParameterError("token: one stands twice, so that a collector could pass as another")
    return found


def _collector(table: TomlTable, role: Role) -> AgreedCollector:
    identity, config = table.text("identity"), table.text("hpke_config")
    Attribution(identity, identity)
    if "/" in identity or identity != identity.lower():
        raise ParameterError(
            f"identity: must be a host alone, in lower case, as tasks have it, not {identity!r}"
        )
    tokens: list[str] = []
    open_jobs = 0
    if role is Role.LEADER:
        tokens, open_jobs = table.text("token").split(" "), table.integer("max_open_jobs")
    for token in tokens:
        check_token(token, "token")
    tasks = table.integer("max_tasks")
    table.finish()
    of_results = collector_config_from_text(config)
    return AgreedCollector(of_results, tuple(tokens), identity, tasks, open_jobs)
