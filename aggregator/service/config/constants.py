"""Values that could be settings but are constants, since nobody could choose them better.

Each has its reason.
"""

from typing import Final

ANSWER_SECONDS: Final = 30
"""How long a request may wait for its answer once it has been received; then it is answered 503.

Less than the 45 s that a leader waits for its helper, so that the leader hears from a busy helper
instead of timing out, and less than the 60 s after which proxies give up.
"""

GROUP_REPORTS: Final = 500
"""The number of reports at which a transaction that stores uploads takes no further request.

Above 1,024, transactions for the same task would wait for each other; with far fewer, the store
would write more often.
"""

MAX_ATTEMPTS: Final = 5
"""How many times an aggregation request is sent that the helper refuses or answers unusably, before
it is made anew or its job is held for an operator.

What was garbled in transit arrives within five attempts; what fails five times always fails.
"""

POLL_SECONDS: Final = 1
"""How soon a collector is asked to poll again (Retry-After).

A poll is one short read, and few results are ready sooner.
"""

WAIT_SECONDS: Final = 300
"""How long who collects waits for a batch that is not ready, unless they say otherwise."""

REFUSAL_SECONDS: Final = 3600
"""How long the helper may refuse its share of a batch before the collection fails with its error.

Long enough to restart a helper or restore its store; a collector can ask again.
"""

DEFERRED_AT_ONCE: Final = 4
"""How many deferred jobs a process answers at once: while one is verified, others are stored."""

DEFERRED_LEASE_SECONDS: Final = 20
"""How long a lease on a deferred job lasts unless renewed; a killed worker's jobs wait it out."""

DEFERRED_POLL_SECONDS: Final = 2
"""When a leader is asked to come again for the answer to a deferred job (Retry-After).

A slow machine takes longer, and a question is one short read.
"""

DEFERRED_LOOK_SECONDS: Final = 0.5
"""How often a worker that has nothing to do looks for deferred jobs."""

LEFT_LOOK_SECONDS: Final = 10
"""How often a helper that does not defer looks for jobs that were put off while it did."""

STALLED_SECONDS: Final = 120
"""The service is not ready once work has waited this long while none was finished.

More than twice as long as the helper may take to answer, and at least twice as long as reports may
wait for others.
"""

MOST_LINGER_SECONDS: Final = STALLED_SECONDS // 2
"""The longest that reports may wait for others: such a wait is not a stall."""

OUTGOING: Final = 20
"""The connections to other parties for which descriptors are kept: jobs are few at once."""

SMALL_JOBS: Final = 8
"""How many small aggregation jobs count as one job of another kind."""

MOST_OUTGOING: Final = 100
"""The most connections that our HTTP client opens at once."""
