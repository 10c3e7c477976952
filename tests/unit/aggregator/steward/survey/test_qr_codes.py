import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import segno

from aggregator.cli.local.folder import LocalFolder
from aggregator.errors import ParameterError
from aggregator.protocol.task_file import task_to_toml
from aggregator.steward.survey.form.translations import shipped
from aggregator.steward.survey.qr_codes import MOST_BYTES, Printed, printed_links, qr_code
from tests.support.commands import run_here
from tests.support.surveys import VISITS, department, task_of

LINK = "https://hospital.example/visits/form.html"
SVG = "{http://www.w3.org/2000/svg}"


def dark_modules(svg: str) -> set[tuple[int, int]]:
    """What is black in a code, without its quiet zone."""
    (path,) = ET.fromstring(svg).iter(f"{SVG}path")  # noqa: S314  our own
    runs = re.findall(r"M(\d+) (\d+)h(\d+)v1h-(\d+)z", path.attrib["d"])
    assert "".join("M{} {}h{}v1h-{}z".format(*run) for run in runs) == path.attrib["d"]
    assert all(right == left for _, _, right, left in runs)
    return {
        (int(x) + step - 4, int(y) - 4) for x, y, length, _ in runs for step in range(int(length))
    }


@pytest.mark.parametrize("link", [LINK, f"{LINK}#{'p' * 43}", "x" * MOST_BYTES])
def test_a_code_is_drawn_as_the_library_makes_it_with_four_blank_modules_around(link: str) -> None:
    made = segno.make_qr(link, error="m")
    assert dark_modules(qr_code(link)) == {
        (x, y) for y, row in enumerate(made.matrix) for x, module in enumerate(row) if module
    }
    size = len(made.matrix) + 8
    assert f'viewBox="0 0 {size} {size}"' in qr_code(link)


@pytest.mark.parametrize("link", ["", "x" * (MOST_BYTES + 1), "é" * MOST_BYTES])
def test_a_link_that_no_code_holds_is_refused(link: str) -> None:
    with pytest.raises(ParameterError, match="link: a QR code holds 1 to 2,331 bytes"):
        qr_code(link)


def test_a_sheet_has_one_link_and_cards_have_each_their_own() -> None:
    links = [f"{LINK}#{number}" for number in range(3)]
    sheet, cards = (
        printed_links([Printed("A & B", "Scan:")], links[:1]),
        printed_links([Printed("A & B", "Scan:")], links),
    )
    assert (sheet.count("<svg"), cards.count("<svg")) == (1, 3)
    assert all(cards.count(f'<code dir="ltr">{link}</code>') == 1 for link in links)
    assert "A &amp; B" in sheet
    with pytest.raises(ParameterError, match="link: there is none to print"):
        printed_links([Printed("A", "Scan:")], [])


def test_a_sheet_loads_nothing_and_says_so() -> None:
    sheet = printed_links([Printed("Visits", "Scan:")], [LINK])
    assert "default-src &#x27;none&#x27;" in sheet
    assert not re.search(r"(src|href)=\"(?!data:,)|url\(|@import|<script", sheet)


def task_in(place: Path) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    task = place / "task.toml"
    task.write_text(task_to_toml(task_of(VISITS + department())), encoding="utf-8")
    return task


def test_the_command_makes_a_sheet_or_the_code_alone(tmp_path: Path) -> None:
    task, sheet, code = task_in(tmp_path), tmp_path / "sheet.html", tmp_path / "code.svg"
    said = "Scannez le code :"
    made = run_here("survey", "sheet", task, "--link", LINK, "--out", sheet, "--text", said)
    assert made.returncode == 0, made.stderr
    run_here("survey", "sheet", task, "--link", LINK, "--out", code)
    assert code.read_text("utf-8") == qr_code(LINK)
    until = ["Open until 2027-11-01 00:00 UTC"]
    assert sheet.read_text("utf-8") == printed_links([Printed("Visits", said)], [LINK], below=until)


@pytest.mark.parametrize(
    ("language", "lines"),
    [
        ("en", ("Asked by: A &amp; B hospital", "Open until 2027-11-01 00:00 UTC")),
        (
            "fr",
            (
                "Enquête menée par: A &amp; B hospital",
                "→ 2027-11-01 00:00 UTC",
                shipped("fr")["scan"],
            ),
        ),
    ],
)
def test_a_sheet_says_who_asks_and_until_when(
    tmp_path: Path, language: str, lines: tuple[str, ...]
) -> None:
    task, sheet = task_in(tmp_path), tmp_path / "sheet.html"
    survey = f'language = "{language}"\n{VISITS}{department()}'
    about = '[about]\norganiser = "A & B hospital"\n'
    task.with_name("survey.toml").write_text(survey + about, encoding="utf-8")
    made = run_here("survey", "sheet", task, "--link", LINK, "--out", sheet)
    assert made.returncode == 0, made.stderr
    shown = sheet.read_text("utf-8")
    assert all(shown.count(f">{line}</") == 1 for line in lines)
    assert f'lang="{language}"' in shown


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--link", LINK), "out: missing"),
        (("--out", "sheet.html"), "link: missing; it is where the survey's page is hosted"),
        (("--link", "javascript:alert(1)", "--out", "sheet.html"), "link: "),
    ],
)
def test_a_sheet_without_a_link_or_a_place_is_refused(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    refused = run_here("survey", "sheet", task_in(tmp_path), *options)
    assert refused.returncode == 2
    assert why in refused.stderr


def test_a_survey_of_prio_up_has_its_link_from_there(tmp_path: Path) -> None:
    folder = LocalFolder.made(tmp_path / "here")
    task_in(folder.surveys / "visits")
    code = tmp_path / "code.svg"
    made = run_here("survey", "sheet", "--up", folder.path, "--out", code)
    assert made.returncode == 0, made.stderr
    assert code.read_text("utf-8") == qr_code(folder.form_url("visits"))
