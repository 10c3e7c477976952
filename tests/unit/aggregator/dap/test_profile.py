import dataclasses

import pytest

from aggregator import DAP_DRAFT
from aggregator.codec import DecodeError, decode, encode
from aggregator.dap.messages import ReportUploadStatus, UploadErrors, upload
from aggregator.dap.profile import DAP_18, Role
from aggregator.dap.report_errors import ReportError
from aggregator.errors import LocalError
from aggregator.vdaf.ping_pong import HELPER_ID, LEADER_ID
from tests.support.dap_messages import REPORT_ID


def test_the_tag_is_that_of_the_draft_the_project_follows() -> None:
    assert DAP_DRAFT.removeprefix("draft-ietf-ppm-").encode() == DAP_18.tag


def test_a_report_error_of_another_draft_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    older = dataclasses.replace(
        DAP_18, report_errors=DAP_18.report_errors - {ReportError.OUTDATED_CONFIG}
    )
    data = encode(UploadErrors((ReportUploadStatus(REPORT_ID, ReportError.OUTDATED_CONFIG),)))
    monkeypatch.setattr(upload, "DAP_18", older)
    with pytest.raises(DecodeError, match="outdated_config is not a report error of this draft"):
        decode(UploadErrors, data)


def test_only_the_aggregators_have_numbers_in_the_vdaf() -> None:
    assert (Role.LEADER.agg_id, Role.HELPER.agg_id) == (LEADER_ID, HELPER_ID)
    for role in (Role.CLIENT, Role.COLLECTOR):
        with pytest.raises(LocalError, match="not an aggregator"):
            _ = role.agg_id
