"""`prio survey`: checks a survey file and makes its task. Other modules have the other commands."""

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from aggregator.cli.options import AsJson, InsecureHttp, OfProfile, Up
from aggregator.cli.steward.survey_form import form, say_unbound
from aggregator.cli.steward.survey_invite import invite
from aggregator.cli.steward.survey_languages import language_lines
from aggregator.cli.steward.survey_making import (
    check_people,
    issuer_keys_in,
    new_issuer_keys,
    planned_of,
    survey_in,
    tasks_of,
)
from aggregator.cli.steward.survey_plan import plan_document, print_plan
from aggregator.cli.steward.survey_rehearse import rehearse
from aggregator.cli.steward.survey_results import collect, results
from aggregator.cli.steward.survey_sheet import sheet
from aggregator.cli.steward.survey_spell import spell
from aggregator.cli.steward.survey_synthetic import synthetic
from aggregator.cli.steward.survey_tasks import TaskFile, survey_of
from aggregator.cli.steward.survey_texts import write_survey
from aggregator.cli.steward.survey_upload import upload
from aggregator.clock import SystemClock
from aggregator.errors import ParameterError
from aggregator.untrusted_text import escaped
from aggregator.written_times import utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from aggregator.cli.local.folder import LocalFolder
    from aggregator.steward.survey import Plan, Survey
    from aggregator.steward.survey.synthetic.foretelling import ToldOfTable
    from aggregator.steward.survey.texts import PlannedText

app = typer.Typer(
    no_args_is_help=True, help="Ask people a survey: check it, make its task, upload answers."
)

SurveyFile = Annotated[Path, typer.Argument(metavar="SURVEY.toml", help="The survey file.")]


@app.command(epilog="Example: prio survey check survey.toml")
def check(
    file: SurveyFile,
    found: Annotated[
        Path | None,
        typer.Option(
            help="The output of `prio survey results --words … --json`: what text questions will "
            "find is then estimated from the last window of each, not guessed."
        ),
    ] = None,
    people: Annotated[
        int | None,
        typer.Option(
            help="How many people answer in a window, if not min_batch_size: errors are for so "
            "many. What is asked stays the same."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check a survey file and print how it would be asked, and with what errors."""
    from aggregator.service.config import read_text

    survey = survey_in(file, read_text(file))
    if people is not None:
        check_people(survey, people)
    planned, texts = planned_of(survey, people)
    if found is not None:
        texts = _by_last(texts, found)
    table = _told_of_table(survey, planned, texts, people)
    if as_json:
        document = plan_document(survey, planned, texts, is_guessed=found is None)
        print(json.dumps(document | {"synthetic": None if table is None else table.to_json()}))
        return
    print(*language_lines(survey), sep="\n", end="\n" if survey.translations else "")
    print_plan(survey, planned, texts)
    if table is not None:
        print(escaped(table.line))
    for text in texts if found is not None else ():
        if (best := text.better()) is not None:
            print(
                f"{text.asked.name}: tasks = {best.tasks} would find what "
                f"{math.ceil(best.found_from):,} or more write, if they write as in the last window"
            )


def _told_of_table(
    survey: "Survey", planned: "Plan | None", texts: "Sequence[PlannedText]", people: int | None
) -> "ToldOfTable | None":
    """Return what the survey's synthetic table will be worth, if it has one."""
    from aggregator.steward.survey.synthetic.foretelling import told_of_table

    return None if planned is None else told_of_table(survey, planned, texts, people)


def _by_last(texts: "Sequence[PlannedText]", found: Path) -> "tuple[PlannedText, ...]":
    """Return text questions with estimates of what they will find, from their last window."""
    from aggregator.cli.files import named
    from aggregator.service.config import read_text
    from aggregator.steward.text.last_window import last_windows

    if not texts:
        raise ParameterError("found: the survey has no text question")
    with named(found):
        last = last_windows(read_text(found), [each.asked.name for each in texts])
        return tuple(each.by_last(last[each.asked.name]) for each in texts)


@app.command(
    epilog="Example: prio survey new survey.toml --out made "
    "--leader https://… --helper https://… --collector-config …"
)
def new(
    file: SurveyFile,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the files, which must not exist yet.")
    ] = None,
    leader: Annotated[str | None, typer.Option(help="The leader's URL.")] = None,
    helper: Annotated[str | None, typer.Option(help="The helper's URL.")] = None,
    collector_config: Annotated[
        str | None, typer.Option(help="The output of `prio collector config` at the collector.")
    ] = None,
    profile: OfProfile = "dap-18",
    permits_of: Annotated[
        Path | None,
        typer.Option(
            "--permits-of",
            metavar="task.toml",
            help="The public file of a former survey by invitation or by application: its links "
            "or permits stay good, and who has answered it in a window does not answer this one in "
            "that window.",
        ),
    ] = None,
    issuer_keys: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="For a survey by application: issuer-keys.json of `prio issuer new`.",
        ),
    ] = None,
    insecure_http: InsecureHttp = False,
    replaces: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="In the folder of a `prio up`: end the former draft, of the same title, and ask "
            "this one at its address. Answers to the former stay behind.",
        ),
    ] = False,
    up: Up = None,
) -> None:
    """Make the task of a survey: the public task.toml and one secret file for each party.

    Each party adds its file with `prio task add`. Uploading needs task.toml only, or task.json,
    which has the same content for programs in any language. Each text question has tasks of its
    own: they are in the parties' files too, and their public files are in text/NAME. A survey of
    text questions only has no other task, and survey.json in place of task.toml. With --up, the
    folder of a `prio up`, in place of --out, --leader, --helper and --collector-config, all three
    parties add their files on this machine.
    """
    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.service.task_making import collector_config_of
    from aggregator.protocol.clear_text import check_endpoints
    from aggregator.service.config import read_text
    from aggregator.steward.survey.beside import SURVEY_FILE

    given = {"out": out, "leader": leader, "helper": helper, "collector-config": collector_config}
    text = read_text(file)
    survey = survey_in(file, text)
    if up is not None or not any(given.values()):
        if any(given.values()):
            raise ParameterError("up: replaces --out, --leader, --helper and --collector-config")
        folder = local_folder.found(up)
        if folder is None:
            raise ParameterError(
                "out: give --out, --leader, --helper and --collector-config, or --up with the "
                "folder of a `prio up`"
            )
        if profile != "dap-18":
            raise ParameterError("profile: a trial on one machine follows dap-18: give --out")
        for name, one in (("permits-of", permits_of), ("issuer-keys", issuer_keys)):
            if one is not None:
                raise ParameterError(
                    f"{name}: a trial on one machine has links and keys of its own"
                )
        _add_to_local_parties(folder, survey, text, replaces=replaces)
        return
    if replaces:
        raise ParameterError(
            "replace: goes with the folder of a `prio up` only: elsewhere each party ends its task"
        )
    for name, value in given.items():
        if not value:  # also an empty text, of a file that is not there: "$(cat collector.config)"
            raise ParameterError(f"{name}: missing")
    assert out and leader and helper and collector_config  # noqa: S101, PT018  none is missing
    config = collector_config_of(collector_config)
    planned, texts = planned_of(survey)
    former = None if permits_of is None else survey_of(permits_of)[0]
    keys = None if issuer_keys is None else issuer_keys_in(issuer_keys)
    parties = (config, leader, helper, profile)
    task, of_texts = tasks_of(survey, planned, texts, *parties, former, keys)
    some = task or next(tasks[0] for _, tasks in of_texts.values())
    check_endpoints(some, insecure_http=insecure_http)
    public = write_survey(task, of_texts, out, {SURVEY_FILE: text})
    print_plan(survey, planned, texts)
    print(
        f"wrote {', '.join([*public, SURVEY_FILE])} (public), and leader.toml, helper.toml, "
        f"collector.toml (secret) to {out}",
        file=sys.stderr,
    )


def _agrees(question: str) -> bool:
    """Ask a person at this terminal; without one, nobody agrees."""
    return sys.stdin.isatty() and typer.confirm(question)


def _add_to_local_parties(
    folder: "LocalFolder", survey: "Survey", text: str, *, replaces: bool
) -> None:
    """Add a survey's tasks to all three parties on one machine."""
    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.local import replacing
    from aggregator.cli.local import tasks as local_tasks
    from aggregator.service.storage.engine.backends import Conflict
    from aggregator.steward.survey.beside import SURVEY_FILE, unbound

    place = local_tasks.place_of(folder, survey)
    replacing.go_on(folder, place)
    is_asked = local_tasks.is_asked(place, text)
    if is_asked is None and not replaces:
        raise ParameterError(
            f"title: {place} has another survey of this title, whose tasks no party can change: "
            "--replace ends it and asks this one at its address; or give this one another title"
        )
    tried = place
    if not is_asked:
        planned, texts = planned_of(survey)
        config = local_tasks.collector_config(folder)
        issuer = new_issuer_keys(survey) if survey.is_by_application else None
        parties = (config, folder.url("leader"), folder.url("helper"))
        made = tasks_of(survey, planned, texts, *parties, keys=issuer.public if issuer else None)
        draft = replacing.drafts_before(folder, place.name)
        if is_asked is None:
            tried, draft = replacing.begin(folder, place, survey.title, _agrees), draft + 1
        beside = {local_folder.DRAFT: f"{draft}\n"} if draft else {}
        tried.parent.mkdir(exist_ok=True)
        write_survey(*made, tried, {SURVEY_FILE: text} | beside, issuer)
        print_plan(survey, planned, texts)
    # Complete whatever was interrupted; a party that already has its file changes nothing.
    try:
        local_tasks.hand_out(folder, local_tasks.files_in(tried))
    except (ParameterError, Conflict) as error:
        if not is_asked:  # a party refused it, so its author will change it
            local_tasks.undo(folder, tried)
        if tried != place:
            raise ParameterError(f"{error}; the former draft is asked as before") from error
        raise
    if tried != place:
        print(replacing.end(folder, tried, place))
    asked, _ = survey_of(local_folder.public_in(place))
    say_unbound(unbound(survey, asked))
    _say_next(folder, place, survey)


def _say_next(folder: "LocalFolder", place: Path, survey: "Survey") -> None:
    """Print what can be done with a survey that all three parties on one machine ask."""
    import shlex

    from aggregator.cli.local import folder as local_folder
    from aggregator.cli.local.replacing import drafts_before

    public = shlex.quote(str(local_folder.public_in(place)))
    print(f"leader, helper and collector take part in {public}. {local_folder.WARNING} Next:")
    if not folder.is_up:
        print(f"  prio up {shlex.quote(str(folder.path))}")
    # A person stays in one task of a text question, which the upload has to remember.
    draft = drafts_before(folder, place.name)
    state = f"sent-{1 + draft}" if draft else "sent"  # which knows a survey by its title
    people = f" --person-column person --state {state}" if survey.texts else ""
    if survey.is_by_invitation:
        print(f"  prio survey invite {public} --count 20 --out links")
        people = " --link-column link"
    if survey.is_by_application:
        keys = shlex.quote(str(place / "issuer.keys"))
        print(f"  run your application, whose server signs permits with {keys}")
    else:
        print(f"  prio survey upload {public} answers.csv --time-column time{people}")
    over = int(survey.first.timestamp()) + survey.windows.seconds
    later = f"  # from {utc_text(over)} on" if over > SystemClock().now() else ""
    print(f'  prio survey collect {public} --last "{escaped(survey.window)}"{later}')


@app.command(epilog="Example: prio survey show made/task.toml")
def show(
    file: TaskFile,
    as_json: AsJson = False,
) -> None:
    """Print what a survey's task asks, and the fingerprint that all parties must agree on."""
    from aggregator.steward.survey.conditions import asked_if

    asked, meaning = survey_of(file)
    # The tasks of a text question differ in their places only.
    of_texts = [tasks[0] for _, tasks in asked.texts.values()]
    if as_json:
        shown = {
            "version": 2,
            "task_id": str(asked.first.task_id),
            "fingerprint": asked.first.fingerprint,
            "meaning": json.loads(meaning.to_json()),
            "sheet": asked.sheet.data(),
        }
        print(json.dumps(shown))
        return
    for task in [asked.task] if asked.task else of_texts:
        print(f"{task.task_id}  fingerprint {task.fingerprint}")
    print(escaped(f"{meaning.title}; {meaning.asked}"))
    for question, design in meaning.sheet.asked:
        print(f"{question.name}  asked as {design.name}")
        described = question.model_dump(mode="json", by_alias=True, exclude={"name"})
        for name, value in described.items():
            if value not in ("", None, [], (), {}):
                print(escaped(f"  {name} = {json.dumps(value, ensure_ascii=False)}"))
    for of, by in meaning.sheet.tables:
        print(f"{of} by {by}")
    for text in meaning.asked_texts:
        only = f", only if {asked_if(text)}" if text.ask_if else ""
        print(escaped(f"{text.name}  asked in people's own words{only}"))
        asked_as = asked.texts[text.name][0]
        what = "by" if asked_as.amount is None else "amount"
        for name, value in asked_as.beside.table.items() if asked_as.beside else ():
            print(escaped(f"  {what} {name} = {json.dumps(value, ensure_ascii=False)}"))


app.command(epilog="Example: prio survey rehearse survey.toml --people 500")(rehearse)
app.command(epilog="Example: prio survey form made/task.toml --out form.html")(form)
app.command(
    epilog="Example: prio survey sheet made/task.toml --link https://…/form.html --out sheet.html"
)(sheet)
app.command(
    epilog="Example: prio survey invite made/task.toml --people people.csv "
    "--page https://…/form.html --out links"
)(invite)
app.command(
    epilog="Example: prio survey upload made/task.toml answers.csv --time-column visited_at"
)(upload)
app.command(
    epilog='Example: prio survey collect made/task.toml --config collector.toml --last "4 weeks"'
)(collect)
app.command(
    epilog="Example: prio survey results made/task.toml --config collector.toml --csv weekly.csv"
)(results)
app.command(
    epilog="Example: prio survey spell made/task.toml --found words.json --window 2026-11-09 "
    "--out spelled"
)(spell)
app.command(
    epilog="Example: prio survey synthetic made/task.toml --config collector.toml "
    "--window 2026-11-02 --out visits.synthetic.csv"
)(synthetic)
