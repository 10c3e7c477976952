"""Answers a collector that asks how many people have answered (`protocol.answers_so_far`)."""

from aggregator.dap.problems import BatchInvalid
from aggregator.protocol.answers_so_far import AnswersSoFar, is_place_beside, least_of_all, so_far
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime
from aggregator.service.storage.reports.answer_counts import count_answers, last_count


async def answers_so_far(runtime: Runtime, task: Task) -> AnswersSoFar:
    """Return how many answers the windows have; of a text question, all its tasks together.

    Raises:
        BatchInvalid: The task's batches are not windows.
    """
    if task.policy.window is None or task.batching.has_ids:
        raise BatchInvalid("answers are counted by window, and the task has none", task.task_id)
    beside = await runtime.asked_with(task)
    places = [task, *(each for each in beside if is_place_beside(task, each))]
    named = [each.task_id.value for each in places]
    counted = await runtime.database.read("last count", lambda tx: last_count(tx, named))
    if counted is None:
        counted = await runtime.database.run("count answers", lambda tx: count_answers(tx, named))
    return so_far(places, *counted, least_of_all([task, *beside]))
