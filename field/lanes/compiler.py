"""numba and llvmlite, or stand-ins where they are not installed: then no kernel is ever compiled.

A client shards one report at a time, for which the plain forms of the kernels do; it need not carry
a compiler. Whatever is asked of a stand-in is a stand-in again; nobody calls what they decorate
but code that is being compiled. `IS_THERE` says which of the two it is.
"""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

IS_THERE: Final = find_spec("numba") is not None

if TYPE_CHECKING or IS_THERE:
    import llvmlite
    import numba
    from llvmlite import binding, ir
    from numba import types
    from numba.core import cgutils
    from numba.core.base import BaseContext
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache, _CacheLocator
    from numba.core.typing import Signature
    from numba.extending import intrinsic, lower_builtin, overload, type_callable
    from numba.np.arrayobj import populate_array
else:

    class _StandIn:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # anything
            if name.startswith("__"):
                raise AttributeError(name)
            return _NOTHING

        def __call__(self, *_: object, **__: object) -> Any:  # noqa: ANN401  # anything
            return _NOTHING

    _NOTHING = _StandIn()
    llvmlite = numba = binding = ir = types = cgutils = populate_array = _NOTHING
    intrinsic = lower_builtin = overload = type_callable = _NOTHING
    BaseContext = Signature = CompileResultCacheImpl = FunctionCache = NullCache = _StandIn
    _CacheLocator = _StandIn

CacheLocator = _CacheLocator

__all__ = [
    "IS_THERE",
    "BaseContext",
    "CacheLocator",
    "CompileResultCacheImpl",
    "FunctionCache",
    "NullCache",
    "Signature",
    "binding",
    "cgutils",
    "intrinsic",
    "ir",
    "llvmlite",
    "lower_builtin",
    "numba",
    "overload",
    "populate_array",
    "type_callable",
    "types",
]
