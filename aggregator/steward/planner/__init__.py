"""The steward's planner: from a question in words to a survey file, on a page.

`form` reads what a steward filled in, `proposal` computes what follows from it, `rehearsal` draws
a result with real noise; `page` shows them and `routes` serves the page. Every figure is one of
`steward.planning` or `steward.survey`, so it is that of `prio plan` and `prio survey check`.
"""

from aggregator.steward.planner.routes import NAME, PATH, Planner

__all__ = ["NAME", "PATH", "Planner"]
