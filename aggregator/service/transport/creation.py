"""Asks another party to create a resource: an aggregation job, aggregate share or collection job.

In the draft, the party that is asked chooses the resource's id and answers with its location. In
profiles where the asking party chooses the id, we know the location before there is an answer.

Source: DAP, "HTTP Usage"; `Profile.creator_names`.
"""

import dataclasses
from collections.abc import Mapping

from aggregator.dap.ids import AggregateShareId, AggregationJobId, CollectionJobId, Identifier
from aggregator.dap.messages import AggregateShareReq, AggregationJobInitReq, CollectionJobReq
from aggregator.dap.resources import media_type, path
from aggregator.protocol.task import Task
from aggregator.service.transport.interpretation import Answer, Carried
from aggregator.service.transport.peer import Peer


@dataclasses.dataclass(frozen=True, slots=True)
class Creation:
    """A kind of resource that a party creates on request.

    Attributes:
        collection: The resource that takes a `POST`.
        made: The created resource, which takes a `PUT`.
        identifier: The type of its id.
        message: The request's name in its media type.
        state: The resource at which the created one's state is read.
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
        """Send a request; return the answer with the location of the created resource.

        Args:
            peer: The party to ask.
            task: The task.
            name: The resource's id, 16 bytes, the same whenever the request is repeated; not sent
                if the peer chooses the id.
            body: The encoded request.
            limit: The most bytes of the answer.
            carrying: See `Peer.send`.
            headers: See `Peer.send`.
        """
        kind = media_type(self.message)
        if not task.profile.creator_names:
            target = path(self.collection, task_id=task.task_id)
            return await peer.send(
                target, kind, body, limit=limit, carrying=carrying, headers=headers
            )
        named = {f"{self.made}_id": self.identifier(name)}
        target = path(self.made, task_id=task.task_id, **named)
        answer = await peer.send(
            target, kind, body, method="PUT", limit=limit, carrying=carrying, headers=headers
        )
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
