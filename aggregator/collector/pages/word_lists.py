"""Word lists that pages try on text questions, without slowing down the service.

Lists come from a folder that the operator names, or are pasted by a reader. They are untrusted
input, so there are bounds on the strings of a list, the time to try them, the strings found and the
lists that wait. One list is tried at a time, in a thread, and its result is kept. This is
post-processing: it asks nobody for data and costs no privacy.
"""

import dataclasses
import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from aggregator.collector.documents import Document
from aggregator.dap.problems import InvalidMessage, TooManyRequests
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.failures import in_thread
from aggregator.service.config import read_text
from aggregator.steward.text.beside import decode_beside
from aggregator.steward.text.candidates import Listed
from aggregator.steward.text.decode import Decoded
from aggregator.steward.text.text_tasks import TextTasks

MOST_STRINGS: Final = 2**20
"""The most strings in a list of the operator's."""
MOST_PASTED: Final = 2**16
"""The most strings in a list that a reader pastes."""

_MOST_BYTES: Final = 2**24
"""The most bytes of a file of the operator's."""
_MOST_BUCKETS: Final = 2**21
"""The most buckets of all tasks of a question; larger questions are left to a command, which blocks
nobody."""
_MOST_FOUND: Final = 2000
_SECONDS: Final = 120
"""How long a list may be tried."""
_MOST_WAITING: Final = 4
_KEPT: Final = 64
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\.txt")
_BY_HAND: Final = "`prio survey results --words` can"


@dataclasses.dataclass(frozen=True, repr=False)
class WordList:
    """A list of candidate strings, and its name for a reader."""

    name: str
    strings: Sequence[str]

    @property
    def digest(self) -> bytes:
        """A digest of the list: equal only for equal lists."""
        text = "\n".join(self.strings).encode("utf-8", "surrogatepass")
        return hashlib.sha256(text).digest()


class WordLists:
    """The lists of a folder, if there is one: its files NAME.txt, UTF-8, a string a line."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def names(self) -> list[str]:
        """Return the names of the lists in the folder now."""
        if self._folder is None:
            return []
        try:
            found = [each.name for each in self._folder.iterdir() if each.is_file()]
        except OSError as error:
            raise InvalidMessage(f"word_lists: the folder: {error.strerror}") from None
        return sorted(name.removesuffix(".txt") for name in found if _FILE.fullmatch(name))

    def read(self, name: str) -> WordList:
        """Return a list, or raise `InvalidMessage` if there is no usable one of this name."""
        if self._folder is None or name not in self.names():
            raise InvalidMessage("list: there is no list of this name")
        file = self._folder / f"{name}.txt"
        try:
            if file.stat().st_size > _MOST_BYTES:
                raise InvalidMessage(f"list {name}: may have {_MOST_BYTES:,} bytes; {_BY_HAND} do")
            return word_list(name, read_text(file), MOST_STRINGS)
        except (OSError, ConfigurationError):
            raise InvalidMessage(f"list {name}: cannot be read as UTF-8") from None


def word_list(name: str, text: str, most: int) -> WordList:
    """Return the candidates of a text, a string a line; `InvalidMessage` for none or too many."""
    strings = [line for line in text.splitlines() if line.strip()]
    if not strings:
        raise InvalidMessage(f"list {name}: holds no string")
    if len(strings) > most:
        raise InvalidMessage(
            f"list {name}: may have {most:,} strings, and has {len(strings):,}; {_BY_HAND} try more"
        )
    return WordList(name, strings)


class Trials:
    """Tries lists, one at a time, and keeps the results."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._waiting = 0
        self._kept: OrderedDict[tuple[object, ...], Decoded] = OrderedDict()

    async def decoded(
        self,
        text: TextTasks,
        release: Sequence[bytes],
        words: WordList,
        read: Callable[[], Awaitable[Sequence[Document]]],
    ) -> Decoded:
        """Return which strings of a list people wrote.

        Args:
            text: The question.
            release: The ids of the collections of one window, in the order of the tasks.
            words: The list.
            read: Returns these collections.

        Raises:
            InvalidMessage: The question is too large for a page, too much is found, or it takes
                too long.
            TooManyRequests: Too many lists are waiting.
        """
        buckets = sum(task.prio3.circuit.output_len for task in text.tasks)
        if buckets > _MOST_BUCKETS:
            raise InvalidMessage(
                f"a page decodes {_MOST_BUCKETS:,} buckets, and this question has {buckets:,}; "
                f"{_BY_HAND} do it"
            )
        key = tuple(release), await in_thread(lambda: words.digest)
        found = self._kept.get(key)
        if found is not None:
            return found
        if self._waiting >= _MOST_WAITING:
            raise TooManyRequests("other lists are being tried; ask again in a minute")
        self._waiting += 1
        try:
            async with self._lock:
                found = self._kept.get(key)  # an earlier request may have tried the same list
                if found is None:
                    found = await in_thread(partial(_decoded, text, await read(), words))
        finally:
            self._waiting -= 1
        self._kept[key] = found
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found


def _decoded(text: TextTasks, documents: Sequence[Document], words: WordList) -> Decoded:
    end = time.monotonic() + _SECONDS

    def check(_tried: int) -> None:
        if time.monotonic() > end:
            raise InvalidMessage(f"a page tries a list for {_SECONDS} s; {_BY_HAND} take longer")

    try:
        listed = Listed(words.strings, text.hashes.meaning)
        check(0)
        return decode_beside(
            text.hashes,
            text.tables(documents),
            text.told,
            listed,
            most_found=_MOST_FOUND,
            progress=check,
        )
    except ParameterError as error:
        raise InvalidMessage(str(error)) from None
