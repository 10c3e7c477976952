"""The addresses of pages that show what people wrote.

GET  /questions/{task_id}/words    a text question, by any of its tasks; also .json, .csv,
                                   .parquet; `window`, its first second; `list`, the operator's
POST /questions/{task_id}/words    the same of strings that a reader pastes

A pasted list is not kept; what it found is kept in memory.
"""

from collections.abc import Callable, Mapping
from functools import partial

from fastapi import APIRouter, Request, Response, status

from aggregator.collector.pages.access import NOT_OWN, Access, Handler, to_login, why_and_code
from aggregator.collector.pages.files import add_files, as_file
from aggregator.collector.pages.forms import read_form, task_named
from aggregator.collector.pages.models import WordsOfText
from aggregator.collector.pages.readings import Readings
from aggregator.collector.pages.texts import AskedText, TextWindow, text_of, texts_in
from aggregator.collector.pages.view import View
from aggregator.collector.pages.word_lists import (
    MOST_PASTED,
    Trials,
    WordList,
    WordLists,
    word_list,
)
from aggregator.collector.pages.written_page import OWN, PASTED, Looked, chosen_window, words_view
from aggregator.dap.problems import UnrecognizedTask
from aggregator.errors import Abort
from aggregator.failures import in_thread
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction

_MOST_PASTED_BYTES = 2**21
"""The most bytes of a form with strings, in which a byte may be encoded as three."""

Known = tuple[AskedText, list[TextWindow], int]


class WordPages:
    """The handlers of the pages of text questions."""

    def __init__(
        self, database: Database, readings: Readings, access: Access, lists: WordLists
    ) -> None:
        self._database, self._readings, self._access = database, readings, access
        self._lists, self._trials = lists, Trials()

    def router(self) -> APIRouter:
        """Return the routes."""
        path, query = "/questions/{task_id}/words", ("window", "list")
        router = APIRouter()
        add_files(
            router,
            path,
            WordsOfText,
            query,
            self._file,
            f"What the page {path} shows; also as .csv and .parquet.",
            f"The rows of {path}.json as a file.",
        )
        router.get(path, include_in_schema=False)(self._access.page_of(self._listed))
        router.post(path, include_in_schema=False)(self.own)
        return router

    async def own(self, request: Request) -> Response:
        """Show what a list finds that a reader pastes."""
        session = self._access.session(request)
        if session is None:
            return to_login(request)
        form = await read_form(request, _MOST_PASTED_BYTES)
        csrf, code = self._access.csrf(session), status.HTTP_200_OK
        if not self._access.is_own_form(session, form):
            refused, code = NOT_OWN
            view = await self._view(request, {}, csrf, refused)
        else:
            window = {"window": form.get("window", "")}
            try:
                pasted = form.get(PASTED, "")
                words = await in_thread(word_list, OWN, pasted, MOST_PASTED)
                view = await self._view(request, window, csrf, words=words)
            except Abort as error:
                refused, code = why_and_code(error)
                view = await self._view(request, {}, csrf, refused)
        return self._access.shown(session, view, code)

    async def _listed(self, request: Request, csrf: str) -> View:
        """Show what a list of the operator's finds."""
        return await self._view(request, request.query_params, csrf)

    def _file(self, ending: str) -> Handler:
        async def handle(request: Request) -> Response:
            self._access.check_reader(request)
            view = await self._listed(request, "")
            return await in_thread(as_file, view, ending)

        return handle

    async def _view(
        self,
        request: Request,
        chosen: Mapping[str, str],
        csrf: str,
        refused: str = "",
        words: WordList | None = None,
    ) -> View:
        """Return the page of a window and a list that the address chose.

        If `refused` says why a given list was refused, none is tried; `words` is a pasted list.
        """
        asked, windows, made = await self._database.read("read a page", self._known(request))
        shown = chosen_window(asked, windows, chosen.get("window", ""))
        names = await in_thread(self._lists.names)
        looked = partial(Looked, asked, windows, made, shown, names)
        if shown is None or refused or (words is None and not names):
            return words_view(looked(refused=refused), csrf)
        if words is None:
            name = chosen.get("list", names[0])
            words = await in_thread(self._lists.read, name)
        release = [shown.collections[place] for place in range(len(asked.text.tasks))]
        decoded = await self._trials.decoded(
            asked.text,
            release,
            words,
            lambda: self._database.read("read a page", lambda tx: asked.documents(tx, shown)),
        )
        return words_view(looked(tried=words.name, decoded=decoded), csrf)

    def _known(self, request: Request) -> Callable[[Transaction], Known]:
        def read(tx: Transaction) -> Known:
            task_id = task_named(request)
            asked = text_of(texts_in(self._readings.asked(tx)), task_id)
            if asked is None:
                raise UnrecognizedTask("this collector has no text question of this task", task_id)
            return asked, asked.windows(tx), asked.made(tx)

        return read
