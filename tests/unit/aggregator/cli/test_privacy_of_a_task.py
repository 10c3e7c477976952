from aggregator.cli.service.tasks import describe_privacy
from tests.support.tasks import ATTRIBUTION, LAPLACE, NO_NOISE, make_task


def test_scale_variance_and_intervals_are_printed_with_a_task() -> None:
    # t = 4: the reference's figures for two aggregators.
    text = describe_privacy(make_task(privacy=LAPLACE))
    assert "discrete Laplace, t = 4" in text
    assert "variance of both together: 63.6677" in text
    assert "plus or minus 16 for each value" in text
    assert "replacement" in text


def test_how_many_releases_aggregators_allow_is_printed_with_a_task() -> None:
    for settings, said in (
        ({"max_batches_per_person": 3}, "releases: no limit"),
        ({"max_batches_per_person": 3, "budget": "2"}, "releases: at most 4, each aggregator"),
        ({"budget": "2", "max_releases": 3}, "releases: at most 3, each aggregator"),
    ):
        assert said in describe_privacy(make_task(privacy={**LAPLACE, **settings}))


def test_a_task_without_noise_says_so_and_names_no_interval() -> None:
    text = describe_privacy(make_task(privacy=NO_NOISE))
    assert "no differential privacy" in text
    assert "interval" not in text


def test_who_collects_what_browsers_attribute_is_printed_with_a_task() -> None:
    text = describe_privacy(make_task(privacy=LAPLACE, attribution=ATTRIBUTION))
    assert "attribution: measures.example collects, paid for by the budget of shop.example" in text


def test_how_often_one_person_is_counted_is_printed_with_a_task() -> None:
    for settings, said in (
        ({"max_reports_per_person": 2}, "2 for ever, since the task has no window"),
        ({"window": 36}, "1 in each window; windows are of 3,600 seconds"),
        ({"window": 36, "window_start": 5, "max_batches_per_person": 4}, "in 4 windows in all"),
        ({"window": 36, "window_start": 5}, "one begins 500 seconds after the epoch"),
    ):
        assert said in describe_privacy(make_task(privacy={**LAPLACE, **settings}))
