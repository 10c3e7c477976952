"""Rows: the store of one aggregator, behind verbs that take an open transaction.

`database` opens the store and runs transactions; every other module holds the verbs of one subject.
Messages are bytes here, and HTTP is unknown. `docs/data-model.md` prints the tables and the states.
"""
