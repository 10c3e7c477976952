"""Text questions as clients answer them: what a person writes becomes a bucket of one of the tasks.

`question` binds a question to its tasks, `strings` says when two answers are the same, `hashing`
which bucket of a task counts an answer, and `toss` how a client chooses the task, which its outbox
keeps. `spelling` asks for letters in one window; `fitting` checks that it fits its question.
`beside_survey` reads the text questions of a survey.
"""

from typing import Final

DESCRIPTION: Final = "text.json"
SPELLING: Final = "spelling.json"
TASKS: Final = "tasks.toml"
"""The file of a question's tasks."""
TASKS_OF_PAGES: Final = "tasks.json"
"""The same for pages."""

SPELLED_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz"
"""The letters that are reported in a spelling, unless a steward names others."""

TEXTS: Final = "text"
"""The folder of text questions beside a survey's file; each has a folder in it."""

SURVEY: Final = "survey.json"
"""The file of a survey that has text questions only."""
