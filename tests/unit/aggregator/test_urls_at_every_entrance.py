"""A URL that is none of what is allowed is refused wherever one comes in, by the field's name."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from pydantic import ValidationError

from aggregator.cli.local.interop_tasks import task_of as task_of_api
from aggregator.dap.auth import TokenHeader
from aggregator.dap.ids import encode_base64url
from aggregator.dap.profile import DAP_18, Role
from aggregator.errors import ParameterError
from aggregator.protocol.clear_text import check_scheme
from aggregator.protocol.provisioning import provision, read_provisions
from aggregator.protocol.task import Task
from aggregator.protocol.task_file import task_from_toml, task_to_toml, tasks_from_toml
from aggregator.service.config import LeaderSettings
from aggregator.service.config.collector_settings import Schedule
from aggregator.service.transport.client import open_client
from aggregator.steward.survey.form.page import form_page, policy_of
from aggregator.steward.survey.said import isolated
from tests.support.commands import run_here, service_file
from tests.support.entropy import SeededEntropy
from tests.support.surveys import VISITS, department, task_of
from tests.support.tasks import (
    COLLECTOR_CONFIG,
    HELPER_URL,
    LAPLACE,
    LEADER_URL,
    collector_keypair,
    make_task,
    task_text,
)
from tests.support.texts import asked_in
from tests.support.urls import ACCEPTED, REFUSED

PRINTABLE: Final = [url for url in REFUSED if url.isprintable() and url.isascii() and url]
"""What the text of a file can hold, and a shell hand over."""

FEW: Final = [
    "https://evil.example;frame-src *;script-src-elem * 'unsafe-inline'/",
    "https://helper.example *",
    *("https://evil'unsafe-inline'/", "https://a,b/", "https://*.a/", "https://a:/"),
    *("http://[::1%25eth0]/", "https://0x7f.1/", "https://a@b/", "https://a:99999/"),
]
"""For entrances that take longer."""


def of_a_file(url: str) -> None:
    task_from_toml(_file("leader", url))


def of_several_in_a_file(url: str) -> None:
    tasks_from_toml(_file("helper", url))


def of_a_partys_file(url: str) -> None:
    text = provision(make_task(), SeededEntropy(b"urls"))[Role.LEADER]
    assert HELPER_URL in text
    read_provisions(text.replace(HELPER_URL, _escaped(url)), Role.LEADER)


def of_the_test_api(url: str) -> None:
    members: dict[str, object] = {
        "task_id": encode_base64url(bytes(32)),
        "leader": url,
        "helper": "http://helper:8080/dap",
        "vdaf": {"type": "Prio3Count"},
        "batch_mode": 1,
        "min_batch_size": 10,
        "time_precision": 60,
    }
    task_of_api(members, collector_keypair().config, DAP_18, TokenHeader.DAP_AUTH_TOKEN)


def of_a_configuration(url: str) -> None:
    """As a message's decoder makes it."""
    task = make_task(privacy=LAPLACE)
    changed = dataclasses.replace(task.configuration, leader_aggregator_endpoint=url)
    Task.create(
        task_id=task.task_id,
        configuration=changed,
        collector_hpke_config=task.collector_hpke_config,
        max_reports=task.max_reports,
    )


def of_a_peer(url: str) -> None:
    check_scheme(url, "peer", insecure_http=True)


def of_a_setting(url: str) -> None:
    LeaderSettings(database="leader.sqlite", traces_endpoint=url)  # type: ignore[arg-type]  # text


def _escaped(url: str) -> str:
    return url.replace("\\", "\\\\").replace('"', '\\"')


def _file(field: str, url: str) -> str:
    kept = LEADER_URL if field == "leader" else HELPER_URL
    return task_text().replace(f'"{kept}"', f'"{_escaped(url)}"')


@pytest.mark.parametrize("url", PRINTABLE)
@pytest.mark.parametrize(
    ("entrance", "field"),
    [
        (of_a_file, "leader"),
        (of_several_in_a_file, "helper"),
        (of_a_partys_file, "helper"),
        (of_the_test_api, "leader"),
        (of_a_configuration, "leader"),
        (of_a_peer, "peer"),
        (of_a_setting, "traces_endpoint"),
    ],
)
def test_no_entrance_takes_it(entrance: Callable[[str], None], field: str, url: str) -> None:
    with pytest.raises((ParameterError, ValidationError), match=rf"{field}.*must ") as caught:
        # A message may say that it is one of several.
        _in_one_line(entrance, url)
    assert "must be http:// or https://, a host" in str(caught.value) or "must have" in str(
        caught.value
    )
    assert "evil" not in str(caught.value)


def _in_one_line(entrance: Callable[[str], None], url: str) -> None:
    """Pydantic names the field in a line before the reason."""
    try:
        entrance(url)
    except ValidationError as error:
        raise ParameterError(" ".join(str(error).split())) from error


@pytest.mark.parametrize("url", [url for url, *_ in ACCEPTED])
def test_every_entrance_takes_what_is_allowed(url: str) -> None:
    for entrance in (
        *(of_a_file, of_several_in_a_file, of_a_partys_file, of_the_test_api),
        *(of_a_configuration, of_a_peer, of_a_setting),
    ):
        entrance(url)


@pytest.mark.parametrize("url", FEW)
def test_no_command_takes_it(tmp_path: Path, url: str) -> None:
    config = ("--collector-config", COLLECTOR_CONFIG)
    survey, task = tmp_path / "survey.toml", tmp_path / "task.toml"
    survey.write_text(VISITS + department(), encoding="utf-8")
    task.write_text(
        task_to_toml(task_of(VISITS + department())).replace(HELPER_URL, url), encoding="utf-8"
    )
    leader = service_file(tmp_path, "leader")
    out = ("--out", tmp_path / "made")
    counted = ("--vdaf", "Prio3Count", "--epsilon=1", "--min-batch-size=10", "--max-reports=1000")
    for field, command in (
        (
            "leader",
            ("survey", "new", survey, *out, *config, "--leader", url, "--helper", HELPER_URL),
        ),
        (
            "helper",
            ("survey", "new", survey, *out, *config, "--leader", LEADER_URL, "--helper", url),
        ),
        (
            "helper",
            ("task", "new", *out, *config, "--leader", LEADER_URL, "--helper", url, *counted),
        ),
        ("helper", ("survey", "form", task)),
        ("peer", ("doctor", "--config", leader, "--peer", url)),
    ):
        done = run_here(*command)
        assert done.returncode == 2, (command, done)
        assert f"{field}: must " in " ".join(done.stderr.split())
        assert not done.stdout
        assert not (tmp_path / "made").exists()
    page = tmp_path / "right.toml"
    page.write_text(task_to_toml(task_of(VISITS + department())), encoding="utf-8")
    done = run_here("survey", "form", page, "--check", f"{url}form.html")
    assert done.returncode == 2
    assert "check: must " in " ".join(done.stderr.split())


@pytest.mark.parametrize("url", FEW)
def test_no_webhook_is_told_there(url: str) -> None:
    with pytest.raises(ValidationError, match="webhook"):
        Schedule(survey="Visits", webhook=f"{url}?a=b")  # type: ignore[arg-type]  # text
    kept = Schedule(survey="Visits", webhook="https://hooks.example/a%20b?c=d")  # type: ignore[arg-type]  # text
    assert str(kept.webhook) == "https://hooks.example/a%20b?c=d"


@pytest.mark.parametrize("name", ["HTTP_PROXY", "https_proxy", "ALL_PROXY"])
def test_no_proxy_of_the_environment_is_one_that_clients_read_in_their_own_ways(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for other in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(other, raising=False)
        monkeypatch.delenv(other.upper(), raising=False)
    for url in (*FEW[:8], "ftp://proxy.example/", "http://me:secret@0x7f.1:3128"):
        if "@" in url and "secret" not in url:
            continue
        monkeypatch.setenv(name, url)
        with pytest.raises(ParameterError, match=f"{name.upper()}: must ") as caught:
            open_client(environment_proxy=True)
        assert "secret" not in str(caught.value)
        open_client()  # which does not look there
    for url in ("proxy.example:3128", "http://me:s%40cret@proxy.example:3128/", ""):
        monkeypatch.setenv(name, url)
        open_client(environment_proxy=True)


@pytest.mark.parametrize("field", ["leader_aggregator_endpoint", "helper_aggregator_endpoint"])
@pytest.mark.parametrize("url", [each for each in REFUSED if each.isascii() and each])
def test_a_page_is_made_for_no_task_that_has_it_whatever_let_it_in(url: str, field: str) -> None:
    task = task_of(VISITS + department())
    changed = dataclasses.replace(task.configuration, **{field: url})
    past_its_own_check = dataclasses.replace(task, configuration=changed)
    with pytest.raises(ParameterError, match=rf"^{field.partition('_')[0]}: must "):
        form_page(asked_in(VISITS + department(), past_its_own_check))


@pytest.mark.parametrize(("url", "origin"), [(url, origin) for url, origin, _ in ACCEPTED])
def test_a_page_talks_to_the_origin_and_no_other_or_is_not_made(url: str, origin: str) -> None:
    """Chromium ignores a source with `_` or an IPv6 address, so such a page could send nothing."""
    asked = asked_in(VISITS + department(), task_of(VISITS + department(), leader=url))
    if {*"_["} & {*origin}:
        with pytest.raises(ParameterError, match=r"^leader: a page's content security policy"):
            form_page(asked)
        return
    page = form_page(asked)
    both = " ".join(sorted({origin, HELPER_URL.rstrip("/")}))
    assert f"; connect-src {both}; img-src data:; " in policy_of(page)
    assert isolated(origin.partition("://")[2]) in page
