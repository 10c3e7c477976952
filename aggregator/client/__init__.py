"""The Client: turns measurements into reports at the leader, without a server or a database.

An application or a notebook needs a `Task` and a `Client`:

    task = task_from_toml(Path("task.toml").read_text())
    async with httpx.AsyncClient() as http:
        summary = await Client(task, http).upload([3, 1, 0])
"""

from typing import TYPE_CHECKING

from aggregator.lazily import exports

if TYPE_CHECKING:
    from aggregator.client.contributions import Contributions, TooManyReports
    from aggregator.client.measurements import CellError, MeasurementReader
    from aggregator.client.upload import Client, UploadError, UploadSummary
else:
    __getattr__ = exports(
        __name__,
        {
            "contributions": ("Contributions", "TooManyReports"),
            "measurements": ("CellError", "MeasurementReader"),
            "upload": ("Client", "UploadError", "UploadSummary"),
        },
    )

__all__ = [
    "CellError",
    "Client",
    "Contributions",
    "MeasurementReader",
    "TooManyReports",
    "UploadError",
    "UploadSummary",
]
