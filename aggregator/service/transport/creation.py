"""Asks another party to make something: an aggregation job, an aggregate share, a collection job.

In the draft the party that is asked names what it made, and says where. Where the task's profile
has it the other way round, we name it, and know where it is before anybody has answered.

Source: DAP, "HTTP Usage"; `Profile.creator_names`.
"""

import dataclasses
from collections.abc import Mapping

from aggregator.dap.ids import AggregateShareId, AggregationJobId, CollectionJobId, Identifier
from aggregator.dap.messages import AggregateShareReq, AggregationJobInitReq, CollectionJobReq
from aggregator.dap.resources import media_type, path
from aggregator.protocol.task import Task
from aggregator.service.transport.peer import Answer, Carried, Peer


@dataclasses.dataclass(frozen=True, slots=True)
class Creation:
    """A kind of thing that is made for whoever asks.

    Attributes:
        collection: The resource that takes a `POST`.
        made: The resource of one that was made, which takes a `PUT`.
        identifier: The type of its id.
        message: The request's name in its media type.
        state: What is asked for at the resource of one that was made.
    """

    collection: str
    made: str
    identifier: type[Identifier]
    message: str
    state: str = ""

    async def ask(
        self,
        peer: Peer,
        task: Task,
        name: bytes,
        body: bytes,
        *,
        limit: int,
        carrying: type[Carried] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request, and say where what it makes is to be found.

        Args:
            peer: Whom to ask.
            task: What it is about.
            name: 16 bytes; whoever asks again for the same gives the same. Not sent if it is the
                peer's to choose.
            body: The request, as the peer reads it.
            limit: The most bytes of the answer.
            carrying: As for `Peer.post`.
            headers: The same.
        """
        kind = media_type(self.message)
        if not task.profile.creator_names:
            target = path(self.collection, task_id=task.task_id)
            return await peer.post(
                target, kind, body, limit=limit, carrying=carrying, headers=headers
            )
        named = {f"{self.made}_id": self.identifier(name)}
        target = path(self.made, task_id=task.task_id, **named)
        answer = await peer.put(target, kind, body, limit=limit, carrying=carrying, headers=headers)
        return dataclasses.replace(answer, location=target + self.state)


AGGREGATION_JOB = Creation(
    "aggregation_jobs",
    "aggregation_job",
    AggregationJobId,
    AggregationJobInitReq.message,
    state="?step=0",
)
AGGREGATE_SHARE = Creation(
    "aggregate_shares", "aggregate_share", AggregateShareId, AggregateShareReq.message
)
COLLECTION_JOB = Creation(
    "collection_jobs", "collection_job", CollectionJobId, CollectionJobReq.message
)
