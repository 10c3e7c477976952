"""Text questions as clients answer them: what a person writes becomes a bucket of one of the tasks.

`question` binds a question to its tasks, `strings` says what makes two answers one, `hashing` in
which bucket of which task an answer is, `toss` how a client chooses the task, and `kept` keeps it.
"""
