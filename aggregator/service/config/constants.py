"""What could be settings and are none, as nobody could choose them better: each with its reason."""

from collections.abc import Mapping
from typing import Final

ANSWER_SECONDS: Final = 30
"""How long a request may wait for its answer once all of it has come; then it is answered 503.

Less than the 45 s that a leader waits for its helper, so that it hears of a busy helper by that
answer and not by silence, and less than the 60 s after which proxies give up.
"""

GROUP_REPORTS: Final = 500
"""After how many reports a transaction that stores uploads takes no further request.

Above 512 those of one task would wait for each other; with far fewer the store writes more often.
"""

MAX_ATTEMPTS: Final = 5
"""How often an aggregation request is sent that the helper refuses, or answers unusably, before it
is made anew or its job is held for an operator.

What was garbled on its way arrives within five attempts; what fails five times fails always.
"""

POLL_SECONDS: Final = 1
"""When a collector is asked to come again (Retry-After).

A question is one short read, and few results are there sooner.
"""

REFUSAL_SECONDS: Final = 3600
"""How long the helper may refuse its share of a batch before the collection fails with its error.

Long enough for a helper that is restarted, or whose store is restored; a collector can ask again.
"""

STALLED_SECONDS: Final = 120
"""The service is not ready once work has waited for so long while none was finished.

More than twice as long as the helper may take for an answer, and as reports may wait for others.
"""

MOST_LINGER_SECONDS: Final = STALLED_SECONDS // 2
"""How long reports may wait for others at most: waiting for them is no stall."""

NO_SETTINGS: Final[Mapping[str, int | str]] = {
    "answer_seconds": ANSWER_SECONDS,
    "collection_poll_seconds": POLL_SECONDS,
    "collection_refusal_seconds": REFUSAL_SECONDS,
    "lease_seconds": "a third more than request_timeout_seconds",
    "max_attempts": MAX_ATTEMPTS,
    "stalled_seconds": STALLED_SECONDS,
    "upload_group_reports": GROUP_REPORTS,
}
"""What stood in files before, and what it is now; a file may go on saying the same."""
