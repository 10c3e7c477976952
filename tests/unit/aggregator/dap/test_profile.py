import pytest

from aggregator import DAP_DRAFT
from aggregator.dap.profile import DAP_18, DAP_19, JANUS, JANUS_2026_08_20, PROFILES, Profile, Role
from aggregator.dap.report_errors import ReportError, UnknownReportError
from aggregator.errors import LocalError
from aggregator.vdaf.ping_pong import HELPER_ID, LEADER_ID

FIRST_OWN_CODE = 240
REASONS = (
    ReportError.BATCH_COLLECTED,
    ReportError.REPORT_REPLAYED,
    ReportError.REPORT_DROPPED,
    ReportError.HPKE_UNKNOWN_CONFIG_ID,
    ReportError.TASK_EXPIRED,
    ReportError.INVALID_MESSAGE,
    ReportError.REPORT_TOO_EARLY,
    ReportError.TASK_NOT_STARTED,
    ReportError.UNSUPPORTED_EXTENSION,
)
"""What a report can be refused for when it is uploaded and when it is aggregated."""


def test_the_tag_is_that_of_the_draft_the_project_follows() -> None:
    assert DAP_DRAFT.removeprefix("draft-ietf-ppm-").encode() == DAP_18.tag


def test_no_two_drafts_have_one_tag_so_their_parties_open_nothing_of_each_other() -> None:
    tags = [each.tag for each in (DAP_18, DAP_19)]
    assert len(set(tags)) == len(tags)
    assert not any(a != b and a.startswith(b) for a in tags for b in tags)


@pytest.mark.parametrize("janus", [JANUS, JANUS_2026_08_20], ids=lambda profile: profile.name)
def test_janus_seals_and_numbers_as_draft_18_and_has_no_word_of_its_own(janus: Profile) -> None:
    of_drafts = {error: code for error, code in DAP_18.codes.items() if code < FIRST_OWN_CODE}
    assert (janus.tag, janus.codes) == (DAP_18.tag, of_drafts)
    # A client of Janus cannot read an answer with a number above 10.
    assert all(janus.code(janus.at_upload.get(error, error)) <= 10 for error in REASONS)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_number_stands_for_one_report_error_and_none_is_reserved(profile: Profile) -> None:
    assert 0 not in profile.codes.values()
    for error, code in profile.codes.items():
        assert profile.report_error(code) is error
        assert profile.code(error) == code


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_whatever_a_report_is_refused_for_the_draft_has_a_number_for_it(profile: Profile) -> None:
    for words, more in (
        (profile.at_upload, ()),
        (
            profile.at_aggregation,
            (ReportError.HPKE_DECRYPT_ERROR, ReportError.VDAF_VERIFY_ERROR),
        ),
    ):
        for error in (*REASONS, *more):
            assert profile.code(words.get(error, error)) > 0


def test_one_number_means_another_thing_in_another_draft() -> None:
    """A helper of draft 19 that finds a message invalid would be asked again for ever."""
    assert DAP_18.report_error(9) is ReportError.REPORT_TOO_EARLY
    assert DAP_19.report_error(9) is ReportError.UNKNOWN_VERIFICATION_KEY_ID
    assert DAP_19.report_error(11) == UnknownReportError(11)
    with pytest.raises(LocalError, match="task_expired is no report error of dap-19"):
        DAP_19.code(ReportError.TASK_EXPIRED)


def test_only_the_aggregators_have_numbers_in_the_vdaf() -> None:
    assert (Role.LEADER.agg_id, Role.HELPER.agg_id) == (LEADER_ID, HELPER_ID)
    for role in (Role.CLIENT, Role.COLLECTOR):
        with pytest.raises(LocalError, match="not an aggregator"):
            _ = role.agg_id
