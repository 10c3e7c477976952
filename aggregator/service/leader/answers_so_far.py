"""Answers a collector that asks how many people have answered (`protocol.answers_so_far`)."""

from aggregator.dap.problems import BatchInvalid
from aggregator.protocol.answers_so_far import AnswersSoFar, so_far
from aggregator.protocol.task import Task
from aggregator.service.runtime import Runtime
from aggregator.service.storage.reports.answer_counts import count_answers, last_count


async def answers_so_far(runtime: Runtime, task: Task) -> AnswersSoFar:
    """Return how many answers the windows have; of a text question, all its tasks together.

    Raises:
        BatchInvalid: The task's batches are not windows.
    """
    if task.policy.window is None or task.batching.leader_selects:
        raise BatchInvalid("answers are counted by window, and the task has none", task.task_id)
    tasks = [task, *await runtime.places_beside(task)]
    named = [each.task_id.value for each in tasks]
    counted = await runtime.database.read("last count", lambda tx: last_count(tx, named))
    if counted is None:
        counted = await runtime.database.run("count answers", lambda tx: count_answers(tx, named))
    return so_far(tasks, *counted)
