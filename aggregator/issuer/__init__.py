"""The issuer of signed permits, for an application with a login.

It has no server and no database of its own: the application knows who is logged in, passes on bytes
and keeps what was answered. The issuer sees who gets permits, never which reports they let count.

    keys = read_keys(Path("issuer.keys"))
    issuer = Issuer(keys, tasks, store)
    answer = issuer.issue(user, body)
"""

from typing import TYPE_CHECKING

from aggregator.lazy_exports import exports

if TYPE_CHECKING:
    from aggregator.issuer.issuer import AlreadyIssued, Issued, Issuer, Store
    from aggregator.issuer.private_keys import PrivateKeys, new_keys, read_keys
else:
    __getattr__ = exports(
        __name__,
        {
            "issuer": ("AlreadyIssued", "Issued", "Issuer", "Store"),
            "private_keys": ("PrivateKeys", "new_keys", "read_keys"),
        },
    )

__all__ = [
    "AlreadyIssued",
    "Issued",
    "Issuer",
    "PrivateKeys",
    "Store",
    "new_keys",
    "read_keys",
]
