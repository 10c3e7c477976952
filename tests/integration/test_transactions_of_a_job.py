"""How many transactions a job is made of: with many tasks, these are most of what it costs."""

from tests.support.pair import Pair, pair_of

pair = pair_of()


async def test_a_job_is_so_many_transactions_at_each_aggregator(pair: Pair) -> None:
    await pair.upload(await pair.reports([1] * 3))
    begun: dict[str, list[str]] = {"leader": [], "helper": []}
    for name, service in (("leader", pair.leader), ("helper", pair.helper)):

        def note(transaction: str, moment: str, begun: list[str] = begun[name]) -> None:
            if moment == "begin":
                begun.append(transaction)

        service.on_moment = note
    assert await pair.work() == 2  # a job is made, and is stepped
    looking = {"tasks with unclaimed reports", "due aggregation jobs", "due collection jobs"}
    assert [each for each in begun["leader"] if each not in looking] == [
        "create aggregation jobs",
        "lease aggregation jobs",
        "reports of job",
        "store aggregation request",
        "finish aggregation job",
    ]
    assert begun["helper"] == ["caller's task", "find aggregation job", "commit aggregation job"]
