"""The store of one aggregator, behind functions that take an open transaction (the verbs).

`engine.database` opens the store and runs transactions; every other module holds the verbs of one
subject. Messages are plain bytes here, and nothing knows of HTTP. `docs/data-model.md` prints the
tables and the states.
"""
