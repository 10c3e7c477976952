"""Changes an aggregator's HPKE keys as its service does in an hour."""

from aggregator.entropy import SystemEntropy
from aggregator.service.runtime.key_rotation import SETTLING_SECONDS, KeyRotation
from tests.support.clock import ManualClock
from tests.support.pair import Service


async def settle(rotation: KeyRotation, running: ManualClock) -> int:
    """Do what is due now; return how many keys were made or destroyed.

    Args:
        rotation: Changes the keys.
        running: Its clock that nobody sets, which goes on by as long as no key may be needed.
    """
    made = await rotation.run_once()
    running.advance(SETTLING_SECONDS)
    return made + await rotation.run_once()


def rotation_of(service: Service, running: ManualClock) -> KeyRotation:
    """Return what changes the keys of a service, whose clock that nobody sets is `running`."""
    return KeyRotation(
        service.role, service.database, SystemEntropy(), service.rotation, running.now
    )


async def rotate(service: Service) -> int:
    """Do all that is due now, as a service does that has run for long; return as `settle`."""
    running = ManualClock(0)
    return await settle(rotation_of(service, running), running)
