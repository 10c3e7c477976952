"""Where traces may be sent, and what is said if the libraries for it are missing."""

import sys
from contextlib import nullcontext

import pytest

from aggregator.cli.service.recording import recording
from aggregator.errors import ConfigurationError, ParameterError
from aggregator.service.config import HelperSettings

ENDPOINT = "http://receiver.example/v1/traces"


def helper(**settings: object) -> HelperSettings:
    return HelperSettings(database="helper.sqlite", **settings)  # type: ignore[arg-type]  # checked by the model


def test_nothing_is_recorded_unless_a_receiver_is_named() -> None:
    for endpoint in (None, ""):
        assert isinstance(recording(helper(traces_endpoint=endpoint)), nullcontext)


def test_plain_http_to_another_machine_is_refused_unless_allowed() -> None:
    with pytest.raises(ParameterError, match=r"traces_endpoint: http://receiver.example is"):
        recording(helper(traces_endpoint=ENDPOINT))
    assert recording(helper(traces_endpoint=ENDPOINT, insecure_http=True)) is not None
    assert recording(helper(traces_endpoint="https://receiver.example/v1/traces")) is not None


def test_the_extra_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "aggregator.service.telemetry.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigurationError, match=r"prio-aggregator\[traces\]"):
        recording(helper(traces_endpoint="http://127.0.0.1:4318/v1/traces"))
