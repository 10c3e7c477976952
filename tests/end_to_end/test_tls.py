"""Services speak TLS themselves, and callers show certificates, without a proxy in front."""

import json
import os
import signal
import ssl
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import httpx
import pytest

from aggregator.dap.auth import bearer_header
from aggregator.dap.ids import AggregationJobId, TaskId
from aggregator.dap.resources import path
from aggregator.service.transport.client import open_client
from aggregator.service.transport.tls import asking_context
from tests.support.certificates import Authority
from tests.support.engines import ON_SQLITE
from tests.support.patience import PATIENCE_SECONDS, wait_until
from tests.support.processes import Processes

pytestmark = [pytest.mark.slow, ON_SQLITE]

HOUR = 3600
TASK = (
    *("--vdaf", "Prio3Count", "--mechanism", "None", "--privacy", "max_releases=1"),
    *("--min-batch-size", "3", "--max-reports", "100"),
)


@contextmanager
def connecting(authority: Authority, shown: dict[str, str] | None = None) -> Iterator[httpx.Client]:
    """Yield a client that trusts an authority, and shows a certificate if it has one."""
    trusted = ssl.create_default_context(cafile=authority.certificate)
    if shown is not None:
        trusted.load_cert_chain(shown["certificate"], shown["key"])
    with httpx.Client(verify=trusted, timeout=PATIENCE_SECONDS, trust_env=False) as http:
        yield http


def prefixed(files: dict[str, str], prefix: str) -> dict[str, str]:
    return {f"{prefix}_{name}": file for name, file in files.items()}


def test_a_pair_speaks_tls_and_its_callers_show_certificates(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stolen token does not open the helper to a caller without a certificate."""
    assert engine == "sqlite"
    servers, callers = Authority(tmp_path, "servers"), Authority(tmp_path, "callers")
    with Processes(tmp_path) as services:
        for name in ("leader", "helper"):
            services.urls[name] = services.urls[name].replace("http:", "https:")
            shown = prefixed(servers.issue(name), "tls")
            services.change(name, **shown, client_ca=str(callers.certificate))
        for name in ("leader", "collector"):
            shown = prefixed(callers.issue(f"{name} calls"), "client")
            services.change(name, **shown, peer_ca=str(servers.certificate))
        task_id, task_file = services.make_task("task", *TASK)
        services.start("leader", "helper")
        start = int(time.time()) // HOUR * HOUR
        with monkeypatch.context() as environment:
            environment.setenv("SSL_CERT_FILE", str(servers.certificate))
            again = ("upload", task_file, "1", "0", "1", "--state", tmp_path / "reports")
            said = [services.prio(*again).stdout for _ in range(2)]
        assert said == ["3 of 3 reports accepted\n"] * 2  # sent once
        end = int(time.time()) // HOUR * HOUR + HOUR
        collected = services.prio(
            *("collect", "--config", services.configs["collector"], task_id),
            *("--start", str(start), "--end", str(end), "--now", "--json"),
        )
        assert json.loads(collected.stdout)["result"]["values"] == [2]

        secrets = tomllib.loads((tmp_path / "task" / "leader.toml").read_text())["secrets"]
        job = path(
            "aggregation_job",
            task_id=TaskId.parse(task_id),
            aggregation_job_id=AggregationJobId(bytes(16)),
        )
        url = services.urls["helper"].rstrip("/") + job
        token = {"authorization": bearer_header(secrets["leader_token"])}
        with connecting(servers) as stranger:
            assert stranger.get(f"{services.urls['helper']}hpke_config").status_code == 200
            refused = stranger.get(url, headers=token)
        assert (refused.status_code, refused.json()["detail"]) == (401, "it shows no certificate")
        with connecting(servers, callers.issue("another caller")) as caller:
            assert caller.get(url).status_code == 401
            assert caller.get(url, headers=token).status_code == 404
        with (
            connecting(servers, Authority(tmp_path, "others").issue("imposter")) as imposter,
            pytest.raises(httpx.TransportError),
        ):
            imposter.get(f"{services.urls['helper']}hpke_config")


def serial_number(services: Processes, authority: Authority) -> str:
    """Return the serial number of the certificate that the helper shows now."""
    url = f"{services.urls['helper']}hpke_config"
    with connecting(authority) as http, http.stream("GET", url) as answer:
        assert answer.status_code == 200
        shown = answer.extensions["network_stream"].get_extra_info("ssl_object").getpeercert()
    return str(shown["serialNumber"])


def test_a_renewed_certificate_is_shown_once_settings_are_read_again(
    tmp_path: Path, engine: str
) -> None:
    assert engine == "sqlite"
    authority = Authority(tmp_path, "servers")
    with Processes(tmp_path) as services:
        services.urls["helper"] = services.urls["helper"].replace("http:", "https:")
        files = authority.issue("helper")
        services.change("helper", **prefixed(files, "tls"))
        services.start("helper")

        async def status_by(trusted: Authority) -> int:
            async with open_client(tls=asking_context(trusted.certificate)) as http:
                return (await http.get(f"{services.urls['helper']}hpke_config")).status_code

        assert anyio.run(status_by, authority) == 200
        with pytest.raises(httpx.ConnectError, match="certificate verify failed"):
            anyio.run(status_by, Authority(tmp_path, "others"))
        first = serial_number(services, authority)
        authority.issue("helper")  # at the same paths
        assert serial_number(services, authority) == first
        services.read_again("helper")

        def events() -> list[object]:
            return [line["event"] for line in services.log("helper")]

        wait_until(lambda: "settings read again" in events(), "not read again")
        second = serial_number(services, authority)
        assert second != first
        Path(files["key"]).write_bytes(Path(authority.issue("another")["key"]).read_bytes())
        services.read_again("helper")
        wait_until(lambda: "settings stay as they were" in events(), "not refused")
        assert serial_number(services, authority) == second
        reason = next(
            str(line["reason"])
            for line in services.log("helper")
            if line["event"] == "settings stay as they were"
        )
        assert f"tls_key: {files['key']}: the key of another certificate" in reason


def test_a_certificate_that_was_broken_stops_no_process_that_has_read_it(
    tmp_path: Path, engine: str
) -> None:
    """One process that is killed meanwhile would take the whole service with it."""
    assert engine == "sqlite"
    authority = Authority(tmp_path, "servers")
    with Processes(tmp_path) as services:
        services.urls["helper"] = services.urls["helper"].replace("http:", "https:")
        files = authority.issue("helper")
        services.change("helper", **prefixed(files, "tls"))
        services.options["helper"] = ("--processes=2",)
        services.start("helper")
        before = serial_number(services, authority)

        def count(event: str) -> int:
            return services.log_path("helper").read_text().count(f'"event": "{event}"')

        # Both have read it: each listens at its address and at that for health.
        wait_until(lambda: count("listening") == 4)
        last = services.children("helper")[-1]  # later a trial of the settings is among them
        whole = Path(files["key"]).read_bytes()
        Path(files["key"]).write_bytes(whole[:100])
        services.read_again("helper")
        wait_until(lambda: count("settings stay as they were"), "not refused")
        os.kill(last, signal.SIGKILL)
        wait_until(lambda: count("a process could not start in the place of another") > 1, "gone")
        assert serial_number(services, authority) == before
        listening = count("listening")
        Path(files["key"]).write_bytes(whole)
        wait_until(lambda: count("listening") > listening, "none started again")
        assert serial_number(services, authority) == before
        assert services.stop("helper") == 0
