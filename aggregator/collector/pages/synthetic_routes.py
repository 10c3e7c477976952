"""The addresses of a survey's synthetic tables.

GET /questions/{task_id}/synthetic    synthetic counts beside released ones; also .json;
                                      .csv and .parquet are the synthetic rows
"""

from collections import OrderedDict

from anyio import CapacityLimiter
from fastapi import APIRouter, Request, Response

from aggregator.collector.pages.access import Access, Handler
from aggregator.collector.pages.asked import Asked
from aggregator.collector.pages.files import TABLES, add_files, as_file, download
from aggregator.collector.pages.forms import task_named
from aggregator.collector.pages.models import SyntheticTable
from aggregator.collector.pages.readings import Reading, Readings
from aggregator.collector.pages.synthetic import MOST_SYNTHETIC, Looked, synthetic_view
from aggregator.collector.pages.view import View
from aggregator.dap.problems import UnrecognizedCollectionJob, UnrecognizedTask
from aggregator.errors import ParameterError
from aggregator.failures import in_thread
from aggregator.service.storage.engine.database import Database
from aggregator.service.storage.engine.transaction import Transaction
from aggregator.steward.survey.synthetic.making import synthetic_of
from aggregator.steward.survey.synthetic.synthetic import ENDINGS, Synthetic
from aggregator.steward.survey.synthetic.told import Told

_KEPT = 16
"""The most tables that are kept: a result has one, which takes a second to make."""


class SyntheticPages:
    """The handlers of the pages of synthetic tables."""

    def __init__(self, database: Database, readings: Readings, access: Access) -> None:
        self._database, self._readings, self._access = database, readings, access
        self._made: OrderedDict[str, Synthetic | str] = OrderedDict()
        self._at_once = CapacityLimiter(1)

    def router(self) -> APIRouter:
        """Return the routes."""
        path, query = "/questions/{task_id}/synthetic", ("result",)
        router = APIRouter()
        add_files(
            router,
            path,
            SyntheticTable,
            query,
            self._file,
            f"What the page {path} shows: synthetic counts beside released ones.",
            "Rows of nobody, drawn from the released pairs of a survey.",
        )
        router.get(path, include_in_schema=False)(self._access.page_of(self._view))
        return router

    async def _view(self, request: Request, _csrf: str) -> View:
        return await in_thread(
            synthetic_view, await self._looked(request), dict(request.query_params)
        )

    def _file(self, ending: str) -> Handler:
        async def handle(request: Request) -> Response:
            self._access.check_reader(request)
            looked = await self._looked(request)
            if looked.made is None:
                raise UnrecognizedCollectionJob(looked.refused or "there is no result yet")
            view = await in_thread(synthetic_view, looked, {})
            if ending == "json":
                return await in_thread(as_file, view, ending)
            return await in_thread(_rows, view, looked.made, ending)

        return handle

    async def _looked(self, request: Request) -> Looked:
        asked, results, shown = await self._database.read(
            "read a page", lambda tx: self._known(request, tx)
        )
        if shown is None:
            return Looked(asked, results, None, None)
        if shown.name not in self._made:
            self._made[shown.name] = await in_thread(_made, shown, limiter=self._at_once)
            while len(self._made) > _KEPT:
                self._made.popitem(last=False)
        made = self._made[shown.name]
        if isinstance(made, str):
            return Looked(asked, results, shown, None, made)
        return Looked(asked, results, shown, made)

    def _known(
        self, request: Request, tx: Transaction
    ) -> tuple[Asked, list[Reading], Reading | None]:
        task_id = task_named(request)
        asked = self._readings.one(tx, task_id.value)
        if asked is None or asked.meaning is None:
            raise UnrecognizedTask("this collector has no such survey", task_id)
        results = [each for each in self._readings.latest(tx, asked) if each.is_of_a_window]
        wanted = request.query_params.get("result")
        if wanted is None:
            return asked, results, results[-1] if results else None
        for each in results:
            if each.name == wanted:
                return asked, results, each
        raise UnrecognizedCollectionJob("the survey has no such result")


def _made(shown: Reading) -> Synthetic | str:
    """Return the synthetic table of a result, or why there is none."""
    meaning, batch = shown.asked.meaning, shown.batch
    assert meaning is not None  # noqa: S101  only surveys are looked at
    told = Told.of(meaning, [batch], batch.guarantee, (shown.period,))
    rows = min(max(batch.report_count, 1), MOST_SYNTHETIC)
    try:
        return synthetic_of(meaning, [batch], told, rows)
    except ParameterError as error:
        return str(error)


def _rows(view: View, made: Synthetic, ending: str) -> Response:
    """Return the rows as a file, whose name says what they are."""
    kind = TABLES[ending]
    of_rows = View(view.title, (), {}, made.rows)
    name = next(each for each in ENDINGS if each.endswith(ending))
    return download(kind.write(of_rows), kind.media_type, f"survey{name}")
