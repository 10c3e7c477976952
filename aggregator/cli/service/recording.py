"""Traces of a service, if its settings name a receiver; the libraries are an extra."""

import importlib
from contextlib import AbstractContextManager, nullcontext

from aggregator.dap.urls import origin
from aggregator.errors import ConfigurationError
from aggregator.protocol.clear_text import check_scheme
from aggregator.service.config import HelperSettings, LeaderSettings


def recording(settings: LeaderSettings | HelperSettings) -> AbstractContextManager[None]:
    """Record this process's spans during the block, if the settings say where to send them.

    Raises `ConfigurationError` without OpenTelemetry, and `ParameterError` if spans would go to
    another machine over plain HTTP.
    """
    if settings.traces_endpoint is None:
        return nullcontext()
    endpoint = str(settings.traces_endpoint)
    check_scheme(origin(endpoint), "traces_endpoint", insecure_http=settings.insecure_http)
    try:
        otlp = importlib.import_module("aggregator.service.telemetry.otlp")
    except ImportError as error:
        raise ConfigurationError(
            "traces_endpoint: OpenTelemetry is not installed: pip install 'prio-aggregator[traces]'"
        ) from error
    begun: AbstractContextManager[None] = otlp.recording(
        endpoint, settings.role, environment_proxy=settings.environment_proxy
    )
    return begun
