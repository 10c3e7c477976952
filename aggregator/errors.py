"""Whose fault an error is: the peer's, one report's, or ours.

    AggregatorError
    ├── Abort            the peer's: answered with one problem document (`dap.problems` names them)
    ├── ReportRejected   one report's: it is left out, and the rest continue
    └── LocalError       ours: logged, answered with a 5xx that carries no detail
        ├── ConfigurationError   an operator's setting or file
        ├── ParameterError       an argument out of range; names it and the limit
        ├── StoreError           the database (`service.storage.engine.database`)
        └── PeerError            the other aggregator (`service.transport.interpretation`)

Each class lives in the module that raises it; this one holds the roots. A message never contains a
share, a key, a seed or a token.
"""


class AggregatorError(Exception):
    """Anything this project raises on purpose."""


class Abort(AggregatorError):
    """The peer's fault: the whole request is refused."""


class ReportRejected(AggregatorError):
    """One report's fault: it alone is rejected."""


class LocalError(AggregatorError):
    """Our own fault, or our operator's."""


class ConfigurationError(LocalError):
    """A setting or a file that the operator gave cannot be used."""


class ParameterError(LocalError, ValueError):
    """An argument outside its range; the message names it, the range and what was given."""


class StoreError(LocalError):
    """The database refused or failed."""


class PeerError(LocalError):
    """The other aggregator could not be reached or refused our request."""
