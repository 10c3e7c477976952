"""Personal links of the people who are invited: made of one key, so they can be made again.

Whoever has the key can answer for everybody who has not answered, and with an aggregator's store
see who has. Aggregators get lists of hashes, which admit nobody.
"""

import dataclasses
import hmac
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Self

from aggregator.dap.ids import decode_base64url, encode_base64url
from aggregator.entropy import Entropy
from aggregator.errors import ParameterError
from aggregator.protocol.permit_codes import LINKED, code_of
from aggregator.protocol.permit_lists import PermitList, Replacements, listed
from aggregator.protocol.permits import SIZE, TAG
from aggregator.protocol.task import Task

_KEY_SIZE: Final = 32
_VERSION: Final = 1
MOST_PERMITS: Final = 50_000_000
"""Entries of one list: 16 bytes each."""

Windows = tuple[int, int]
"""The first and the last window, by number, for which somebody is invited."""

Generations = Mapping[int, int]
"""How often a person's link was replaced, by number, of those whose was."""


@dataclasses.dataclass(frozen=True, slots=True)
class Invitations:
    """Who is invited to what, by number from 1 on.

    Attributes:
        key: What all secrets are made of.
        page: The address of the survey's page.
        windows: Those of each person.
        generations: How often links were replaced.
        listed: The same at the time when a domain was first listed, by domain: lists that were
            given out stay as they are, and replacements are lists of their own.
    """

    key: bytes = dataclasses.field(repr=False)
    page: str
    windows: Sequence[Windows] = ()
    generations: Generations = dataclasses.field(default_factory=dict)
    listed: Mapping[bytes, Generations] = dataclasses.field(default_factory=dict)

    @classmethod
    def fresh(cls, page: str, entropy: Entropy) -> Self:
        """Return the invitations of nobody yet, under a new key."""
        return cls(entropy.bytes(_KEY_SIZE), page)

    def of(self, tasks: Sequence[Task], invited: Sequence[Windows] = ()) -> Self:
        """Return these invitations for the tasks of a survey, and those of more people.

        Raises `ParameterError` if the tasks have no permits, or were made for other links.
        """
        domains = [*domains_of(tasks)]
        if self.listed and not any(each in self.listed for each in domains):
            raise ParameterError(
                "out: the links in it are of another survey: name another folder; or make the "
                "survey with --permits-of, so that its links stay"
            )
        windows = (*self.windows, *invited)
        count = len(domains) * sum(last - first + 1 for first, last in windows)
        if count > MOST_PERMITS:
            raise ParameterError(
                f"windows: {count:,} permits are too many for a list, which has at most "
                f"{MOST_PERMITS:,}: give links for fewer windows, and later ones with another --out"
            )
        new = {each: self.generations for each in domains if each not in self.listed}
        return dataclasses.replace(self, windows=windows, listed={**self.listed, **new})

    def replaced(self, number: int) -> Self:
        """Return the same with another link of one person."""
        self.check(number)
        generations = dict(self.generations)
        generations[number] = generations.get(number, 0) + 1
        return dataclasses.replace(self, generations=generations)

    def check(self, number: int) -> None:
        """Refuse a number that nobody has."""
        if not 1 <= number <= len(self.windows):
            raise ParameterError(f"number: must be from 1 to {len(self.windows)}, not {number}")

    def code(self, number: int) -> str:
        """Return the code of a person's link."""
        self.check(number)
        return code_of(self._secret(number, self.generations.get(number, 0)))

    def link(self, number: int) -> str:
        """Return a person's link: what follows # is sent to no server."""
        return link_of(self.page, self.code(number))

    def lists(self, tasks: Sequence[Task]) -> list[PermitList]:
        """Return the lists of the tasks' domains, for both aggregators: of everybody."""
        found = []
        for domain, task in domains_of(tasks).items():
            at_first = self.listed[domain]
            windows: dict[int, list[bytes]] = {}
            for number, (first, last) in enumerate(self.windows, 1):
                secret = self._secret(number, at_first.get(number, 0))
                for window in range(first, last + 1):
                    windows.setdefault(window, []).extend(_entries(task, secret, window))
            found.append(listed(domain, windows))
        return found

    def replacements(self, tasks: Sequence[Task], number: int, since: int) -> list[Replacements]:
        """Return the pairs of a person's last link and each one before, from a window on.

        Whoever has used any of them has answered, even if the one after it never counted.
        """
        *olds, new = (self._secret(number, each) for each in range(self.generations[number] + 1))
        first, last = self.windows[number - 1]
        return [
            Replacements(
                domain,
                {
                    window: sorted(
                        pair
                        for old in olds
                        for pair in zip(
                            _entries(task, old, window), _entries(task, new, window), strict=True
                        )
                    )
                    for window in range(max(first, since), last + 1)
                },
            )
            for domain, task in domains_of(tasks).items()
        ]

    def to_json(self) -> str:
        """Return the file in which they are kept, which is as secret as all links together."""
        return json.dumps(
            {
                "version": _VERSION,
                "key": self.key.hex(),
                "page": self.page,
                "windows": self.windows,
                "replaced": self.generations,
                "listed": {encode_base64url(each): some for each, some in self.listed.items()},
            }
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return what `to_json` wrote; a `ParameterError` does not have what is in it."""
        try:
            read = json.loads(text)
            domains = {decode_base64url(each): some for each, some in read["listed"].items()}
            if read["version"] != _VERSION:
                raise ParameterError("key: this version knows only version 1")
            return cls(
                bytes.fromhex(read["key"]),
                read["page"],
                tuple((int(first), int(last)) for first, last in read["windows"]),
                _generations(read["replaced"]),
                {each: _generations(some) for each, some in domains.items()},
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ParameterError("key: not the file that `prio survey invite` wrote") from None

    def _secret(self, number: int, generation: int) -> bytes:
        place = generation.to_bytes(4, "big") + number.to_bytes(8, "big")
        return hmac.digest(self.key, TAG + b"secret" + place, "sha256")[:SIZE]


def cards(
    tasks: Sequence[Task], page: str, invited: Sequence[Windows], entropy: Entropy
) -> tuple[list[str], list[PermitList]]:
    """Return links of which nobody keeps whose they are, and the lists of their permits.

    The key is forgotten: nobody can make the links again. They are independent of each other, and
    lists are sorted, so their order says nothing.
    """
    made = Invitations.fresh(page, entropy).of(tasks, invited)
    return [made.link(number) for number in range(1, 1 + len(invited))], made.lists(tasks)


def link_of(page: str, code: str) -> str:
    """Return the link of a code."""
    return f"{page}{LINKED}{code}"


def domains_of(tasks: Sequence[Task]) -> dict[bytes, Task]:
    """Return the domains of a survey's permits, each with one of its tasks.

    Raises `ParameterError` if a task has none, or if an issuer signs them: no list has those.
    """
    found: dict[bytes, Task] = {}
    for task in tasks:
        if task.permits is None:
            raise ParameterError(
                f"permits: {task.title or task.task_id} counts answers of everybody; a survey by "
                'invitation has answers = "by invitation" in its file'
            )
        if task.permits.is_signed:
            raise ParameterError(
                f"permits: {task.title or task.task_id} counts permits that an issuer signs, which "
                "no link has and no list"
            )
        found.setdefault(task.permits.domain, task)
    return found


def _entries(task: Task, secret: bytes, window: int) -> Iterator[bytes]:
    assert task.permits is not None  # noqa: S101  as `domains_of` has seen
    for number in range(task.policy.max_reports_per_person):
        yield task.permits.entry_of(secret, window, number)


def _generations(table: Mapping[str, int]) -> dict[int, int]:
    return {int(number): int(count) for number, count in table.items()}
