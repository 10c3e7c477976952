"""The steward's planner: from a question in words to a survey file, on a page.

`form` reads what a steward filled in, `proposal` computes a plan from it, and `rehearsal` draws
a result with real noise; `page` shows them and `routes` serves the page. Every figure comes from
`steward.planning` or `steward.survey`, so it is the one of `prio plan` and `prio survey check`.
"""

from aggregator.steward.planner.routes import NAME, PATH, Planner

__all__ = ["NAME", "PATH", "Planner"]
