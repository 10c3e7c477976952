"""From a survey file to its tasks, for commands that check it, make them or rehearse it."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from aggregator.cli.steward.survey_texts import permits_of, text_tasks
from aggregator.clock import SystemClock
from aggregator.entropy import SystemEntropy
from aggregator.errors import ParameterError
from aggregator.written_times import IN_UTC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aggregator.client.survey.asked_survey import AskedSurvey
    from aggregator.client.text.beside_survey import AskedTexts
    from aggregator.dap.hpke import HpkeConfig
    from aggregator.issuer import PrivateKeys
    from aggregator.protocol.signed_permits import IssuerKeys
    from aggregator.protocol.task import Task
    from aggregator.steward.survey import Plan, Survey
    from aggregator.steward.survey.texts import PlannedText


def survey_in(file: Path, text: str) -> "Survey":
    """Return the survey whose file has this text; if it names no first window, that of now."""
    from aggregator.cli.files import named
    from aggregator.steward.survey import survey_from_toml

    with named(file):
        return survey_from_toml(text, datetime.fromtimestamp(SystemClock().now(), UTC))


def planned_of(
    survey: "Survey", people: int | None = None
) -> "tuple[Plan | None, tuple[PlannedText, ...]]":
    """Return how a survey is asked: its report, unless it has text questions only, and these.

    Errors are for `min_batch_size` people unless a number is given.
    """
    from aggregator.steward.survey import plan
    from aggregator.steward.survey.texts import plan_texts

    texts = plan_texts(survey)
    if people is not None:
        texts = tuple(each.by_people(people) for each in texts)
    return plan(survey, people) if survey.questions else None, texts


def tasks_of(
    survey: "Survey",
    planned: "Plan | None",
    texts: "Sequence[PlannedText]",
    config: "HpkeConfig",
    leader: str,
    helper: str,
    profile: str = "dap-18",
    former: "AskedSurvey | None" = None,
    keys: "IssuerKeys | None" = None,
) -> "tuple[Task | None, AskedTexts]":
    """Make the task of a survey, unless it has text questions only, and theirs.

    If answers count by invitation, links of a `former` survey are links of this one. If they count
    by application, `keys` are those of its issuer, or the former survey's stay, with all permits.
    """
    from aggregator.cli.service.task_making import make_task
    from aggregator.steward.survey import task_tables

    domains = _domains_of(survey, texts, former)
    if former is not None and keys is None:
        keys = former.first.issuer_keys
    _check_keys(survey, keys)
    of_texts = text_tasks(survey, texts, config, leader, helper, profile, domains, keys)
    if planned is None:
        return None, of_texts
    made = task_tables(survey, planned, texts)
    parties = {"leader": leader, "helper": helper, "profile": profile}
    permits = permits_of(domains, "", keys)
    task = make_task(config, made.vdaf, made.privacy, **parties, **made.settings, **permits)
    return task, of_texts


def _domains_of(
    survey: "Survey", texts: "Sequence[PlannedText]", former: "AskedSurvey | None"
) -> "Mapping[str, bytes]":
    """Return what permits are good for: the survey's report, under "", and each text question.

    A question that a former survey asked, too, keeps its domain, and so whoever answered it in a
    window does not do so again.
    """
    from aggregator.protocol.permits import DOMAIN_SIZE

    kept = {} if former is None else _kept_domains(survey, former)
    if survey.answers == "by open link":
        return {}
    entropy = SystemEntropy()
    names = [each.asked.name for each in texts]
    return {
        name: kept[name] if name in kept else entropy.bytes(DOMAIN_SIZE)
        for name in (["", *names] if survey.questions else names)
    }


def _kept_domains(survey: "Survey", former: "AskedSurvey") -> "Mapping[str, bytes]":
    """Return the domains of a former survey, or refuse one whose permits cannot stay."""
    signed = former.first.issuer_keys is not None
    how = "by application" if signed else "by invitation"
    if survey.answers != how:
        raise ParameterError(f'permits-of: the survey file must have answers = "{how}"')
    tasks = {name: some[0] for name, (_, some) in former.texts.items()}
    if former.task is not None:
        tasks[""] = former.task
    kept = {name: task.permits.domain for name, task in tasks.items() if task.permits is not None}
    if not kept:
        raise ParameterError("permits-of: that survey counts answers of everybody who has its link")
    window, unit = former.first.policy.window, former.first.time_precision
    assert window is not None  # noqa: S101  as a survey's tasks have
    here = survey.windows
    if (window.length * unit, window.start * unit) != (here.seconds, here.offset):
        raise ParameterError(
            "permits-of: the survey's windows must be those of the former one, because each of its "
            "permits is of one of them"
        )
    return kept


def _check_keys(survey: "Survey", keys: "IssuerKeys | None") -> None:
    """Refuse keys of other windows than the survey's, and those that nothing is signed with."""
    if not survey.is_by_application:
        if keys is not None:
            raise ParameterError(
                'issuer-keys: the survey file must have answers = "by application"'
            )
        return
    if keys is None:
        raise ParameterError(
            "issuer-keys: missing; whoever runs the application makes them: `prio issuer new "
            "survey.toml --out issuer`"
        )
    for window in survey.permit_windows:
        if keys.of_window(window) is None:
            begins = IN_UTC.moment(int(survey.first.timestamp()))
            raise ParameterError(
                "issuer-keys: have no key of one of the survey's windows, which begin at "
                f"{begins}: make keys of this survey file; it should say when it begins (first)"
            )


def issuer_keys_in(file: Path) -> "IssuerKeys":
    """Return the public keys in a file that `prio issuer new` wrote."""
    from aggregator.cli.files import named
    from aggregator.protocol.issuer_key_file import issuer_keys_from_json
    from aggregator.service.config import read_text

    with named(file):
        return issuer_keys_from_json(read_text(file))


def new_issuer_keys(survey: "Survey") -> "PrivateKeys":
    """Make an issuer's keys for all windows of a survey, each of which takes some 0.05 s."""
    from aggregator.issuer import new_keys

    if not survey.is_by_application:
        raise ParameterError('answers: must be "by application" in the survey file')
    return new_keys(survey.permit_windows.start, len(survey.permit_windows))


def check_people(survey: "Survey", people: int) -> None:
    """Refuse a number of people of whom nothing would be released, or more than a window takes."""
    if not survey.min_batch_size <= people <= survey.max_reports:
        raise ParameterError(
            f"people: must be {survey.min_batch_size:,} (min_batch_size) to "
            f"{survey.max_reports:,} (max_reports), not {people:,}"
        )
