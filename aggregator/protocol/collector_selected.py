"""The collector-selected batch mode: a batch is what is uploaded below its collection job.

The collector gathers reports and hands a bundle of them in. A batch's id is made with its
collection job, and from then on all is as where the leader selects batches: the id is the bucket's
key, and jobs carry it to the helper. A query says nothing; it stands for the job itself.

Source: draft-thomson-ppm-dap-attribution.
"""

from typing import ClassVar

from aggregator.dap.ids import BatchId
from aggregator.dap.messages import CollectorSelectedQuery, CollectorSelectedSelector
from aggregator.dap.profile import BatchMode
from aggregator.entropy import Entropy
from aggregator.protocol.batches import Batch
from aggregator.protocol.leader_selected import LeaderSelected


class CollectorSelected(LeaderSelected):
    """Reports fall into batches as they are uploaded below collection jobs."""

    leader_selects = False
    collector_selects = True
    mode = BatchMode.COLLECTOR_SELECTED
    query_type = CollectorSelectedQuery
    selector_type = CollectorSelectedSelector
    who_selects: ClassVar[str] = "a batch is what is uploaded below its collection job"


def new_batch(entropy: Entropy) -> Batch:
    """Return the batch of a new collection job."""
    batch_id = entropy.bytes(BatchId.size)
    return Batch(batch_id, batch_id)
