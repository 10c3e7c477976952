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
_kept: list[Vector] = []


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
        case "repeated":
            _kept.append(noise)
            return share + _kept[0]
        case "correlated":
            draws = lift(noise)
            return share + project(share.field, [draws[i - i % 2] for i in range(len(draws))])
        case _:
            return share + noise


if __name__ == "__main__":
    collection.add_noise = faulty_noise
    cli.main()
