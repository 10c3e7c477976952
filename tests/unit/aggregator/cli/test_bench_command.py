"""`prio bench` opens the benchmarks of a checkout, and says where they are if it is none."""

import sys

import pytest

from tests.support.commands import run_here


def test_the_commands_of_a_checkout_are_reached_with_their_options() -> None:
    done = run_here("bench", "verify", "--help")
    assert done.returncode == 0
    assert "prio bench verify" in done.stdout
    assert "--reports" in done.stdout


def test_without_a_checkout_bench_says_where_the_benchmarks_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "benchmarks", None)
    done = run_here("bench", "all")
    assert done.returncode == 2
    assert (
        "prio: the benchmarks come with the source, not with the installed package" in done.stderr
    )
