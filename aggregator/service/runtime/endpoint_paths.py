"""The paths of our endpoints as tasks name them, for proxies that do not strip them."""

from aggregator.dap.profile import Role
from aggregator.dap.urls import read_endpoint
from aggregator.service.runtime.runtime import Runtime
from aggregator.service.storage.tasks.version import settings_version


class EndpointPaths:
    """The paths of our own endpoints, read again when tasks have changed."""

    def __init__(self, runtime: Runtime) -> None:
        """Look at the tasks of `runtime`."""
        self._runtime = runtime
        self._version: int | None = None
        self._paths = frozenset[str]()

    async def __call__(self) -> frozenset[str]:
        """Return the paths, without trailing slashes; the root is left out."""
        version = await self._runtime.database.read("settings version", settings_version)
        if version != self._version:
            configurations = [task.configuration for task in await self._runtime.tasks()]
            endpoints = [
                each.leader_aggregator_endpoint
                if self._runtime.role is Role.LEADER
                else each.helper_aggregator_endpoint
                for each in configurations
            ]
            if self._runtime.in_band is not None:
                endpoints += self._runtime.in_band.endpoints
            paths = {read_endpoint(each, "endpoint").path.rstrip("/") for each in endpoints}
            self._paths, self._version = frozenset(paths - {""}), version
        return self._paths
