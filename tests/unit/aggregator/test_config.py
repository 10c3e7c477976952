"""Settings from a file and the environment; every fault is named, no secret is shown."""

from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.errors import ConfigurationError
from aggregator.protocol.requirements import Requirements
from aggregator.service.config import (
    CollectorSettings,
    HelperSettings,
    LeaderSettings,
    ServiceSettings,
    read_settings,
    read_settings_of,
)

SECRET = "c2VjcmV0LXN0b3JlLWtleQ"  # noqa: S105 - a test's secret


def write(folder: Path, text: str) -> Path:
    path = folder / "service.toml"
    path.write_text(text)
    path.chmod(0o600)  # files with secrets that others can read are refused
    return path


def test_a_file_needs_only_role_and_database(tmp_path: Path) -> None:
    settings = read_settings(
        write(tmp_path, 'service.role = "leader"\nservice.database = "leader.sqlite"')
    )
    assert isinstance(settings, LeaderSettings)
    assert settings.database_url == f"sqlite:///{tmp_path / 'leader.sqlite'}"
    assert settings.store_key_file is None
    assert settings.listen == "127.0.0.1:8000"
    assert settings.health_listen is None
    assert settings.requirements == Requirements(max_delta=Fraction(1, 10**5))


def test_an_empty_health_listen_in_the_environment_means_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(
        tmp_path,
        'service.role = "helper"\nservice.database = "x"\nservice.health_listen = "127.0.0.1:9000"',
    )
    assert read_settings(file).health_listen == "127.0.0.1:9000"
    monkeypatch.setenv("PRIO_HEALTH_LISTEN", "")
    assert read_settings(file).health_listen is None


def test_an_absolute_path_and_a_url_are_taken_as_they_are(tmp_path: Path) -> None:
    for database in ("/srv/x.sqlite", "sqlite:////srv/x.sqlite"):
        settings = read_settings(
            write(tmp_path, f'service.role = "helper"\nservice.database = "{database}"')
        )
        assert settings.database_url == "sqlite:////srv/x.sqlite"


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        'service.role = "leader"\nservice.database = "a.sqlite"\n'
        "tuning.request_timeout_seconds = 200",
    )
    monkeypatch.setenv("PRIO_REQUEST_TIMEOUT_SECONDS", "170")
    monkeypatch.setenv("PRIO_MAX_EPSILON", "1/3")
    monkeypatch.setenv("PRIO_STORE_KEY", SECRET)
    settings = read_settings_of(LeaderSettings, path)
    assert settings.request_timeout_seconds == 170
    assert settings.max_epsilon == Fraction(1, 3)
    assert settings.store_key is not None
    assert settings.store_key.get_secret_value() == SECRET
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings)


def test_the_environment_alone_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRIO_ROLE", "helper")
    monkeypatch.setenv("PRIO_DATABASE", "/data/helper.sqlite")
    assert read_settings_of(HelperSettings, None).database == "/data/helper.sqlite"


def test_the_requirements_are_what_the_settings_say(tmp_path: Path) -> None:
    lines = [
        (
            'service.role = "helper"\nservice.database = "a.sqlite"\n'
            'requirements.min_batch_size = 50\nrequirements.max_epsilon = "1/3"'
        ),
        (
            'requirements.max_delta = "0"\n'
            'requirements.max_rho = "1/50"\nrequirements.limit_required = true\n'
            "requirements.exact_results = false"
        ),
        'requirements.population_required = "staff, patients"',
    ]
    settings = read_settings_of(HelperSettings, write(tmp_path, "\n".join(lines)))
    assert settings.requirements == Requirements(
        min_batch_size=50,
        max_epsilon=Fraction(1, 3),
        max_delta=Fraction(0),
        max_rho=Fraction(1, 50),
        limit_required=True,
        exact_results=False,
        populations=frozenset({"staff", "patients"}),
    )


@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("", True),
        ('requirements.max_epsilon = "8"', False),
        ('requirements.max_epsilon = "8"\nrequirements.exact_results = true', True),
    ],
)
def test_a_largest_epsilon_that_is_set_refuses_exact_results_even_at_the_default(
    tmp_path: Path, line: str, *, takes: bool
) -> None:
    text = f'service.role = "helper"\nservice.database = "a.sqlite"\n{line}'
    requirements = read_settings_of(HelperSettings, write(tmp_path, text)).requirements
    assert requirements.takes_exact_results is takes
    assert requirements.largest_epsilon == 8


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("tuning.request_timeout_seconds = 0", "request_timeout_seconds"),
        *[
            (
                f'requirements.population_required = "{text}"',
                "population_required.* none of them empty",
            )
            for text in (",", " , ", " ", "staff,", "staff,,patients")
        ],
        ("tuning.concurrency = 1000", "concurrency"),
        ("tuning.helper_concurrency = 9", r"helper_concurrency: .* concurrency \(4\), not 9"),
        ("tuning.max_bytes_in_flight = 65536", r"max_body_size: .* max_bytes_in_flight \(65536\)"),
        ("tuning.linger_seconds = 61", "linger_seconds"),
        ("tuning.hpke_rotation_seconds = 86399", r"hpke_rotation_seconds: .* \(86400\), not 86399"),
        (
            'tuning.hpke_suites = "X25519/AES-128-GCM, P-521/AES-128-GCM"',
            "hpke_suites: .* suite 2 is none of X25519/AES-128-GCM",
        ),
        (
            'tuning.hpke_suites = "P-256/AES-256-GCM,P-256/AES-256-GCM"',
            "hpke_suites: .* a suite twice",
        ),
        (
            "tuning.hpke_rotation_seconds = 3\ntuning.hpke_cache_seconds = 3",
            r"hpke_rotation_seconds: 3 would make 203 keys at once",
        ),
        ('tls.tls_certificate = "a.pem"', "tls_certificate: give both tls_certificate and tls_key"),
        ('tls.client_key = "a.pem"', "client_certificate: give both"),
        ('tls.client_ca = "a.pem"', "client_ca: needs tls_certificate"),
        ('service.listen = "8001"', "listen: must be host:port"),
        ('service.listen = "127.0.0.1:port"', "listen"),
        ('service.listen = "127.0.0.1:70000"', "listen"),
        ("requirements.max_epsilon = 0.1", "max_epsilon"),
        ('requirements.max_epsilon = "0"', "max_epsilon"),
        ("requirements.max_delta = 0.1", "max_delta must be written as text"),
        ('requirements.max_delta = "1"', "max_delta must be below 1"),
        ('requirements.max_rho = "-1"', "max_rho must be a positive rational"),
        ('requirements.limit_required = "perhaps"', "limit_required"),
        ('service.log_format = "xml"', "log_format: must be json or console$"),
        ("leese_seconds = 3", "leese_seconds"),
        ('listn = "127.0.0.1:1"', r"listn: no such setting; did you mean listen\?"),
        (
            'service.allowed_hosts = "a"',
            "allowed_hosts: is a setting of a collector only; remove it",
        ),
        ("tuning.concurrency = 257", "concurrency: must be at most 256, not 257$"),
        ("tuning.concurrency = 1.5", "concurrency: must be a whole number$"),
        ('tls.insecure_http = "maybe"', "insecure_http: must be true or false$"),
        ("tls.peer_ca = 3", "peer_ca: must be text in quotation marks$"),
        (
            'tuning.traces_endpoint = "localhost:4318"',
            "traces_endpoint: must be http:// or https://",
        ),
        (
            'tuning.traces_endpoint = "https://me:secret@x/"',
            "traces_endpoint: must be http:// or https",
        ),
        ("requirements.min_batch_size = 0", "min_batch_size"),
        ("=", r"not TOML \(line 3, column 1\)$"),
        (f"tuning.linger_seconds = {'1' * 5000}", "not TOML"),
        ("tuning.linger_seconds = " + "[" * 20_000, "not TOML"),
    ],
)
def test_a_faulty_setting_is_named(tmp_path: Path, line: str, named: str) -> None:
    path = write(tmp_path, f'service.role = "leader"\nservice.database = "a.sqlite"\n{line}')
    with pytest.raises(ConfigurationError, match=named):
        read_settings(path)


def test_a_fault_in_the_environment_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_CONCURRENCY", "0")
    path = write(
        tmp_path, 'service.role = "leader"\nservice.database = "a.sqlite"\ntuning.concurrency = 9'
    )
    with pytest.raises(ConfigurationError, match=r"concurrency \(PRIO_CONCURRENCY\): must be at"):
        read_settings(path)


def test_a_fault_in_a_schedule_says_which(tmp_path: Path) -> None:
    schedules = '[[schedule]]\nsurvey = "a"\n[[schedule]]\nsurvey = "b"\ngrace_seconds = -1'
    path = write(
        tmp_path, f'service.role = "collector"\nservice.database = "a.sqlite"\n{schedules}'
    )
    with pytest.raises(ConfigurationError, match=r"schedule 2\.grace_seconds: must be at least 0"):
        read_settings(path)


def test_a_time_zone_is_one_that_the_machine_knows_and_pages_are_shown_in_it(
    tmp_path: Path,
) -> None:
    text = 'service.role = "collector"\nservice.database = "a.sqlite"\n'
    assert read_settings(write(tmp_path, text)).times.name == "UTC"
    chosen = read_settings(write(tmp_path, f'{text}service.time_zone = "Europe/Berlin"'))
    assert chosen.times.name == "Europe/Berlin"
    with pytest.raises(ConfigurationError, match="time_zone: must be the name of a time zone"):
        read_settings(write(tmp_path, f'{text}service.time_zone = "Berlin/Europe"'))


def test_all_faults_are_named_at_once_and_no_value_is_shown(tmp_path: Path) -> None:
    text = f'service.role = "leader"\nkeys.store_key = ["{SECRET}"]\ntuning.linger_seconds = "x"'
    with pytest.raises(ConfigurationError) as refused:
        read_settings(write(tmp_path, text))
    message = str(refused.value)
    for name in ("database", "store_key", "linger_seconds"):
        assert name in message
    assert SECRET not in message
    assert "Input" not in message


TABLES = """\
[service]
role = "leader"
database = "a.sqlite"

[keys]
store_key_file = "a.key"

[requirements]
max_epsilon = "1/3"

[tls]
insecure_http = true

[tuning]
concurrency = 9
"""


def test_settings_stand_in_tables(tmp_path: Path) -> None:
    settings = read_settings_of(LeaderSettings, write(tmp_path, TABLES))
    assert settings.database == str(tmp_path / "a.sqlite")
    assert settings.store_key_file == tmp_path / "a.key"
    assert settings.max_epsilon == Fraction(1, 3)
    assert settings.insecure_http
    assert settings.concurrency == 9


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{TABLES}max_delta = '0'", r"max_delta: belongs in \[requirements\], not in \[tuning\]"),
        (f"{TABLES}schedule = 1", r"schedule: belongs in .*\[\[schedule\]\], not in \[tuning\]"),
        ("concurrency = 8", r"concurrency: belongs in \[tuning\], not before the first table"),
        (f"{TABLES}leese_seconds = 3", "leese_seconds: no such setting"),
        (f"{TABLES}[tunning]\nconcurrency = 3", r"tunning: no such setting; did you mean tuning\?"),
        ("requirements = 3", r"requirements: must be a table, \[requirements\]"),
    ],
)
def test_a_setting_in_another_place_than_its_own_is_named(
    tmp_path: Path, text: str, named: str
) -> None:
    with pytest.raises(ConfigurationError, match=named):
        read_settings(write(tmp_path, text))


@pytest.mark.parametrize("kind", [LeaderSettings, HelperSettings, CollectorSettings])
def test_a_secret_in_the_place_of_another_setting_is_not_shown(
    kind: type[ServiceSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who confuses two variables still has a log that others may read."""
    monkeypatch.setenv("PRIO_ROLE", kind.model_fields["role"].default)
    monkeypatch.setenv("PRIO_DATABASE", "a.sqlite")
    refused = []
    for name in kind.model_fields.keys() - {"role"}:
        with monkeypatch.context() as patch:
            patch.setenv(f"PRIO_{name.upper()}", SECRET)
            try:
                read_settings(None)
            except ConfigurationError as error:
                refused.append(str(error))
    assert len(refused) > 10
    assert [each for each in refused if SECRET in each] == []


def test_a_secret_in_a_table_is_found(tmp_path: Path) -> None:
    text = TABLES.replace('store_key_file = "a.key"', f'store_key = "{SECRET}"')
    file = write(tmp_path, text)
    file.chmod(0o644)
    with pytest.raises(ConfigurationError, match="holds a secret") as refused:
        read_settings(file)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["", 'service.role = "boss"\nservice.database = "x"', "service.role = 3"]
)
def test_a_file_for_no_party_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="role must be one of leader, helper, collector"):
        read_settings(write(tmp_path, text))


def test_another_partys_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 'service.role = "helper"\nservice.database = "a.sqlite"')
    with pytest.raises(ConfigurationError, match="helper's settings"):
        read_settings_of(LeaderSettings, path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing.toml: No such file"):
        read_settings(tmp_path / "nothing.toml")


def test_a_store_on_a_server_needs_a_named_token_file_and_shows_no_password(tmp_path: Path) -> None:
    url = f"postgresql://prio:{SECRET}@db.example/leader"
    settings = read_settings(
        write(tmp_path, f'service.role = "collector"\nservice.database = "{url}"')
    )
    assert isinstance(settings, CollectorSettings)
    assert settings.database_url == url
    assert SECRET not in repr(settings)
    with pytest.raises(ConfigurationError, match="token_file: missing"):
        _ = settings.token_path


def test_the_journal_of_releases_lies_beside_a_file_and_is_named_for_a_server(
    tmp_path: Path,
) -> None:
    def place(**settings: str) -> str:
        lines = [f'service.{name} = "{value}"' for name, value in settings.items()]
        file = write(tmp_path, "\n".join(['service.role = "helper"', *lines]))
        return read_settings_of(HelperSettings, file).journal_place

    server = "postgresql://db.example/helper"
    assert place(database="h.sqlite") == str(tmp_path / "h.sqlite.journal")
    assert place(database=server, release_journal="j") == str(tmp_path / "j")
    assert place(database=server, release_journal=f"{server}2") == f"{server}2"
    with pytest.raises(ConfigurationError, match="release_journal: missing"):
        place(database=server)
    with pytest.raises(ConfigurationError, match="release_journal: must be another database"):
        place(database=server, release_journal=server)
