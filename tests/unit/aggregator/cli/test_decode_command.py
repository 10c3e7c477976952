import dataclasses
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from aggregator.cli.decode import MESSAGES, decode_file, describe
from aggregator.codec import encode
from aggregator.dap import messages
from aggregator.dap.hpke import HpkeConfigList
from tests.support.dap_messages import EXTENDED_REPORT, REPORT, SAMPLES, TASK_CONFIGURATION

APP = typer.Typer()
APP.command()(decode_file)
RUNNER = CliRunner()


def run(*arguments: str, given: bytes | None = None) -> tuple[int, str]:
    result = RUNNER.invoke(APP, list(arguments), input=given)
    return result.exit_code, result.output


def test_a_report_is_printed_field_by_field(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_bytes(encode(EXTENDED_REPORT))
    assert run("--message", "report", str(file)) == (
        0,
        """\
Report
  report_metadata: ReportMetadata
    report_id: EBESExQVFhcYGRobHB0eHw
    time: 1011 units
    public_extensions: 2
      [0]: Extension
        extension_type: 3
        extension_data: 0 bytes
      [1]: Extension
        extension_type: 17
        extension_data: 4 bytes 64617461
  public_share: 0 bytes
  leader_encrypted_input_share: HpkeCiphertext
    config_id: 10
    enc: 4 bytes 656e6331
    payload: 12 bytes 6c6561646572207368617265
  helper_encrypted_input_share: HpkeCiphertext
    config_id: 11
    enc: 4 bytes 656e6332
    payload: 12 bytes 68656c706572207368617265
""",
    )


def test_codes_are_printed_by_name_and_long_byte_strings_are_cut() -> None:
    lines = list(describe(TASK_CONFIGURATION))
    assert "  batch_mode: time_interval (1)" in lines
    assert "  leader_aggregator_endpoint: 'https://leader.example/dap/'" in lines
    long = messages.Report(
        REPORT.report_metadata, bytes(100), *([REPORT.leader_encrypted_input_share] * 2)
    )
    assert f"  public_share: 100 bytes {'00' * 16}…" in list(describe(long))


def test_a_task_is_printed_with_its_type_of_measurement_and_parameters() -> None:
    lines = list(describe(TASK_CONFIGURATION))
    place = next(i for i, line in enumerate(lines) if line.startswith("  vdaf_configuration: "))
    assert lines[place + 1] == "    Prio3Histogram length = 8, chunk_length = 3"


def test_a_task_of_a_type_that_is_not_known_is_printed_all_the_same() -> None:
    lines = list(describe(dataclasses.replace(TASK_CONFIGURATION, vdaf_type=6)))
    assert "    vdaf_type must be a known code point, not 0x00000006" in lines


def test_a_query_is_printed_with_its_batch_mode() -> None:
    request = messages.CollectionJobReq(messages.LeaderSelectedQuery())
    assert list(describe(request))[1:3] == [
        "  query: LeaderSelectedQuery",
        "    batch_mode: leader_selected (2)",
    ]


def test_every_kind_of_message_can_be_described() -> None:
    printable = [sample for sample in SAMPLES if type(sample) in MESSAGES.values()]
    assert {type(sample) for sample in printable} == set(MESSAGES.values())
    for sample in printable:
        first, *rest = describe(sample)
        assert first == type(sample).__name__
        assert rest


def test_every_body_has_its_media_types_name() -> None:
    bodies = {
        value.message: value
        for value in [*(getattr(messages, name) for name in messages.__all__), HpkeConfigList]
        if hasattr(value, "message")
    }
    assert bodies.items() <= MESSAGES.items()
    assert len(bodies) == 10


def test_hexadecimal_text_is_read_from_the_input() -> None:
    code, output = run("-m", "report", "--hex", "-", given=encode(REPORT).hex(" ").encode() + b"\n")
    assert code == 0
    assert output.startswith("Report\n")


def test_bytes_that_are_no_such_message_are_refused_with_the_place(tmp_path: Path) -> None:
    file = tmp_path / "report"
    file.write_bytes(encode(REPORT)[:-1])
    code, output = run("-m", "report", str(file))
    assert code == 1
    assert "bytes are not a valid report: Report: byte" in output


@pytest.mark.parametrize("arguments", [["-m", "report", "missing"], ["-m", "report", "--hex", "-"]])
def test_input_that_cannot_be_read_is_refused(arguments: list[str], tmp_path: Path) -> None:
    arguments = [str(tmp_path / "missing") if word == "missing" else word for word in arguments]
    code, output = run(*arguments, given=b"zz")
    assert code == 1
    assert "cannot be read" in output


def test_an_unknown_message_is_refused_with_the_names_there_are() -> None:
    code, output = run("-m", "plaintext-input-share", "-")
    assert code == 2
    assert "upload-req" in output
