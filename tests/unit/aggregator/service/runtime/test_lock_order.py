"""Whatever writes for several tasks locks them in one order."""

from aggregator.dap.ids import TaskId
from aggregator.service.runtime.lock_order import lock_order
from tests.support.permitted import permitted
from tests.support.tasks import make_task


def named(number: int) -> TaskId:
    return TaskId(bytes([number] * 32))


def test_tasks_of_a_domain_of_permits_come_together_where_their_domain_does() -> None:
    plain = [make_task(id=str(named(number))) for number in (1, 5, 9)]
    of_domain = [permitted(named(number), bytes([5] * 32)) for number in (0, 8)]
    in_order = [plain[0], plain[1], *of_domain, plain[2]]
    assert sorted([*of_domain[::-1], *plain[::-1]], key=lock_order) == in_order
