"""Text questions as clients answer them: what a person writes becomes a bucket of one of the tasks.

`question` binds a question to its tasks, `strings` says what makes two answers one, `hashing` in
which bucket of which task an answer is, `toss` how a client chooses the task; `kept` keeps tosses
in files, and an application's outbox keeps its own. `spelling` is what is asked in a window of
letters. `beside` reads the questions of a survey.
"""

from typing import Final

DESCRIPTION: Final = "text.json"
TASKS: Final = "tasks.toml"
"""The public files of a question."""

SPELLED_ALPHABET: Final = "abcdefghijklmnopqrstuvwxyz"
"""Letters that are told when a string is spelled, unless a steward names others."""

TEXTS: Final = "text"
"""The folder of a survey's text questions beside its task's file, a folder for each."""
