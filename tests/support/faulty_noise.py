"""An aggregator whose noise is wrong: a file names the fault, and is read at every release.

Run as a program in place of `prio`, with the file first: only this process is patched.
"""

import dataclasses
import sys
from pathlib import Path

from aggregator import cli
from aggregator.dp.discrete_laplace import PureDpDiscreteLaplace
from aggregator.dp.mechanisms import Mechanism
from aggregator.dp.release import add_noise
from aggregator.entropy import Entropy
from aggregator.protocol import collection
from aggregator.vdaf.circuits import Circuit
from field import Vector, lift, project

FAULT_FILE = Path(sys.argv.pop(1)) if __name__ == "__main__" else Path()
_drawn: list[list[int]] = []


def faulty_noise(share: Vector, mechanism: Mechanism, circuit: Circuit, entropy: Entropy) -> Vector:
    """Add noise with the fault that the file names, if any."""
    noise = add_noise(share, mechanism, circuit, entropy) - share
    match FAULT_FILE.read_text():
        case "dropped":
            return share
        case "halved":
            assert isinstance(mechanism, PureDpDiscreteLaplace)
            halved = dataclasses.replace(mechanism, epsilon=2 * mechanism.epsilon)
            return add_noise(share, halved, circuit, entropy)
        case fault:
            draws = _changed(fault, lift(noise))
            return share + project(share.field, draws)


def _changed(fault: str, draws: list[int]) -> list[int]:
    """Return a release's draws as the fault makes them."""
    _drawn.append(draws)
    match fault:
        case "repeated":
            return _drawn[0]
        case "correlated":
            return [draws[i - i % 2] for i in range(len(draws))]
        case "silent at the end":
            return [*draws[:-16], *[0] * 16]
        case "reversed" if len(_drawn) % 2 == 0:
            return _drawn[-2][::-1]
        case _:
            return draws


if __name__ == "__main__":
    collection.add_noise = faulty_noise
    cli.main()
