"""The store of one aggregator, behind verbs that take an open transaction.

`database` opens the store and runs transactions; every other module holds the verbs of one subject.
Messages are plain bytes here, and nothing knows of HTTP. `docs/data-model.md` prints the tables and
the states.
"""
