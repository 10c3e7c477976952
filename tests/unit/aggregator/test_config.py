"""Settings from a file and the environment; every fault is named, no secret is shown."""

from fractions import Fraction
from pathlib import Path

import pytest

from aggregator.errors import ConfigurationError
from aggregator.protocol.requirements import Floor
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
    settings = read_settings(write(tmp_path, 'role = "leader"\ndatabase = "leader.sqlite"'))
    assert isinstance(settings, LeaderSettings)
    assert settings.database_url == f"sqlite:///{tmp_path / 'leader.sqlite'}"
    assert settings.store_key_file is None
    assert settings.listen == "127.0.0.1:8000"
    assert settings.health_listen is None
    assert settings.floor == Floor(max_delta=Fraction(1, 10**5))


def test_an_empty_health_listen_in_the_environment_means_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, 'role = "helper"\ndatabase = "x"\nhealth_listen = "127.0.0.1:9000"')
    assert read_settings(file).health_listen == "127.0.0.1:9000"
    monkeypatch.setenv("PRIO_HEALTH_LISTEN", "")
    assert read_settings(file).health_listen is None


def test_an_absolute_path_and_a_url_are_taken_as_they_are(tmp_path: Path) -> None:
    for database in ("/srv/x.sqlite", "sqlite:////srv/x.sqlite"):
        settings = read_settings(write(tmp_path, f'role = "helper"\ndatabase = "{database}"'))
        assert settings.database_url == "sqlite:////srv/x.sqlite"


def test_the_environment_wins_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, 'role = "leader"\ndatabase = "a.sqlite"\nrequest_timeout_seconds = 200')
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


def test_a_floor_is_what_the_settings_say(tmp_path: Path) -> None:
    lines = [
        'role = "helper"\ndatabase = "a.sqlite"\nmin_batch_size_floor = 50\nmax_epsilon = "1/3"',
        'max_delta = "0"\nmax_rho = "1/50"\nlimit_required = true\nexact_results = false',
        'population_required = "staff, patients"',
    ]
    settings = read_settings_of(HelperSettings, write(tmp_path, "\n".join(lines)))
    assert settings.floor == Floor(
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
    [("", True), ('max_epsilon = "8"', False), ('max_epsilon = "8"\nexact_results = true', True)],
)
def test_a_largest_epsilon_that_is_set_refuses_exact_results_even_at_the_default(
    tmp_path: Path, line: str, *, takes: bool
) -> None:
    text = f'role = "helper"\ndatabase = "a.sqlite"\n{line}'
    floor = read_settings_of(HelperSettings, write(tmp_path, text)).floor
    assert floor.takes_exact_results is takes
    assert floor.largest_epsilon == 8


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("request_timeout_seconds = 0", "request_timeout_seconds"),
        *[
            (f'population_required = "{text}"', "population_required.* none of them empty")
            for text in (",", " , ", " ", "staff,", "staff,,patients")
        ],
        ("concurrency = 1000", "concurrency"),
        ("helper_concurrency = 9", r"helper_concurrency: .* concurrency \(4\), not 9"),
        ("max_bytes_in_flight = 65536", r"max_body_size: .* max_bytes_in_flight \(65536\)"),
        ("linger_seconds = 61", "linger_seconds"),
        ("hpke_rotation_seconds = 86399", r"hpke_rotation_seconds: .* \(86400\), not 86399"),
        (
            'hpke_suites = "X25519/AES-128-GCM, P-521/AES-128-GCM"',
            "hpke_suites: .* suite 2 is none of X25519/AES-128-GCM",
        ),
        ('hpke_suites = "P-256/AES-256-GCM,P-256/AES-256-GCM"', "hpke_suites: .* a suite twice"),
        (
            "hpke_rotation_seconds = 3\nhpke_cache_seconds = 3",
            r"hpke_rotation_seconds: 3 would make 203 keys at once",
        ),
        ('tls_certificate = "a.pem"', "tls_certificate: give both tls_certificate and tls_key"),
        ('client_key = "a.pem"', "client_certificate: give both"),
        ('caller_ca = "a.pem"', "caller_ca: needs tls_certificate"),
        ('listen = "8001"', "listen: must be host:port"),
        ('listen = "127.0.0.1:port"', "listen"),
        ('listen = "127.0.0.1:70000"', "listen"),
        ("max_epsilon = 0.1", "max_epsilon"),
        ('max_epsilon = "0"', "max_epsilon"),
        ("max_delta = 0.1", "max_delta must be written as text"),
        ('max_delta = "1"', "max_delta must be below 1"),
        ('max_rho = "-1"', "max_rho must be a positive rational"),
        ('limit_required = "perhaps"', "limit_required"),
        ('log_format = "xml"', "log_format: must be json or console$"),
        ("leese_seconds = 3", "leese_seconds"),
        ('listn = "127.0.0.1:1"', r"listn: no such setting; did you mean listen\?"),
        ('allowed_hosts = "a"', "allowed_hosts: is a setting of a collector only; remove it"),
        ("concurrency = 257", "concurrency: must be at most 256, not 257$"),
        ("concurrency = 1.5", "concurrency: must be a whole number$"),
        ('insecure_http = "maybe"', "insecure_http: must be true or false$"),
        ("peer_ca = 3", "peer_ca: must be text in quotation marks$"),
        ('traces_endpoint = "localhost:4318"', "traces_endpoint: must be http:// or https://"),
        ('traces_endpoint = "https://me:secret@x/"', "traces_endpoint: must be http:// or https"),
        ("min_batch_size_floor = 0", "min_batch_size_floor"),
        ("=", r"not TOML \(line 3, column 1\)$"),
        (f"linger_seconds = {'1' * 5000}", "not TOML"),
        ("linger_seconds = " + "[" * 20_000, "not TOML"),
    ],
)
def test_a_faulty_setting_is_named(tmp_path: Path, line: str, named: str) -> None:
    path = write(tmp_path, f'role = "leader"\ndatabase = "a.sqlite"\n{line}')
    with pytest.raises(ConfigurationError, match=named):
        read_settings(path)


def test_a_fault_in_the_environment_names_its_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIO_CONCURRENCY", "0")
    path = write(tmp_path, 'role = "leader"\ndatabase = "a.sqlite"\nconcurrency = 9')
    with pytest.raises(ConfigurationError, match=r"concurrency \(PRIO_CONCURRENCY\): must be at"):
        read_settings(path)


def test_a_fault_in_a_schedule_says_which(tmp_path: Path) -> None:
    schedules = '[[schedule]]\nsurvey = "a"\n[[schedule]]\nsurvey = "b"\ngrace_seconds = -1'
    path = write(tmp_path, f'role = "collector"\ndatabase = "a.sqlite"\n{schedules}')
    with pytest.raises(ConfigurationError, match=r"schedule 2\.grace_seconds: must be at least 0"):
        read_settings(path)


def test_a_time_zone_is_one_that_the_machine_knows_and_pages_are_shown_in_it(
    tmp_path: Path,
) -> None:
    text = 'role = "collector"\ndatabase = "a.sqlite"\n'
    assert read_settings(write(tmp_path, text)).times.name == "UTC"
    chosen = read_settings(write(tmp_path, f'{text}time_zone = "Europe/Berlin"'))
    assert chosen.times.name == "Europe/Berlin"
    with pytest.raises(ConfigurationError, match="time_zone: must be the name of a time zone"):
        read_settings(write(tmp_path, f'{text}time_zone = "Berlin/Europe"'))


def test_all_faults_are_named_at_once_and_no_value_is_shown(tmp_path: Path) -> None:
    text = f'role = "leader"\nstore_key = ["{SECRET}"]\nlinger_seconds = "x"'
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

[floor]
max_epsilon = "1/3"

[tls]
insecure_http = true

[tuning]
concurrency = 9
"""


def test_settings_stand_in_tables_and_files_from_before_have_none(tmp_path: Path) -> None:
    settings = read_settings_of(LeaderSettings, write(tmp_path, TABLES))
    assert settings.database == str(tmp_path / "a.sqlite")
    assert settings.store_key_file == tmp_path / "a.key"
    assert settings.max_epsilon == Fraction(1, 3)
    assert settings.insecure_http
    assert settings.concurrency == 9
    flat = "\n".join(line for line in TABLES.splitlines() if not line.startswith("["))
    assert read_settings(write(tmp_path, flat)) == settings


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"{TABLES}max_delta = '0'", r"max_delta: belongs in \[floor\], not in \[tuning\]"),
        (f"{TABLES}schedule = 1", r"schedule: belongs in .*\[\[schedule\]\], not in \[tuning\]"),
        (f"concurrency = 8\n{TABLES}", "concurrency: is given twice"),
        (f"{TABLES}leese_seconds = 3", "leese_seconds: no such setting"),
        (f"{TABLES}[tunning]\nconcurrency = 3", r"tunning: no such setting; did you mean tuning\?"),
        ("floor = 3", r"floor: must be a table, \[floor\]"),
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


def test_what_was_a_setting_is_refused_with_what_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match=r"max_attempts: is no setting any more: it is 5"):
        read_settings(write(tmp_path, f"{TABLES}max_attempts = 6"))
    monkeypatch.setenv("PRIO_LEASE_SECONDS", "60")
    with pytest.raises(ConfigurationError, match=r"lease_seconds: .* more than request_timeout"):
        read_settings(write(tmp_path, TABLES))


def test_a_file_of_before_may_say_what_is_so_anyway(tmp_path: Path) -> None:
    """`prio up` wrote such a line, and its folders are there to be started again."""
    read_settings(write(tmp_path, f"{TABLES}max_attempts = 5\ncollection_poll_seconds = 1"))
    with pytest.raises(ConfigurationError, match=r"collection_poll_seconds: .* it is 1; remove"):
        read_settings(write(tmp_path, f"{TABLES}collection_poll_seconds = 2"))


@pytest.mark.parametrize("text", ["", 'role = "boss"\ndatabase = "x"', "role = 3"])
def test_a_file_for_no_party_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="role must be one of leader, helper, collector"):
        read_settings(write(tmp_path, text))


def test_another_partys_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, 'role = "helper"\ndatabase = "a.sqlite"')
    with pytest.raises(ConfigurationError, match="helper's settings"):
        read_settings_of(LeaderSettings, path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nothing.toml: No such file"):
        read_settings(tmp_path / "nothing.toml")


def test_a_store_on_a_server_needs_a_named_token_file_and_shows_no_password(tmp_path: Path) -> None:
    url = f"postgresql://prio:{SECRET}@db.example/leader"
    settings = read_settings(write(tmp_path, f'role = "collector"\ndatabase = "{url}"'))
    assert isinstance(settings, CollectorSettings)
    assert settings.database_url == url
    assert SECRET not in repr(settings)
    with pytest.raises(ConfigurationError, match="token_file: missing"):
        _ = settings.token_path


def test_the_journal_of_releases_lies_beside_a_file_and_is_named_for_a_server(
    tmp_path: Path,
) -> None:
    def place(**settings: str) -> str:
        lines = [f'{name} = "{value}"' for name, value in settings.items()]
        file = write(tmp_path, "\n".join(['role = "helper"', *lines]))
        return read_settings_of(HelperSettings, file).journal_place

    server = "postgresql://db.example/helper"
    assert place(database="h.sqlite") == str(tmp_path / "h.sqlite.journal")
    assert place(database=server, release_journal="j") == str(tmp_path / "j")
    assert place(database=server, release_journal=f"{server}2") == f"{server}2"
    with pytest.raises(ConfigurationError, match="release_journal: missing"):
        place(database=server)
    with pytest.raises(ConfigurationError, match="release_journal: must be another database"):
        place(database=server, release_journal=server)
