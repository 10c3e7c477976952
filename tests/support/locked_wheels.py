"""Keep what the wheels of every lock say of themselves, after `make lock`.

`python -m tests.support.locked_wheels` asks the package index that pip is configured with for the
files of each pinned version, and reads the metadata of the wheel that each Python and platform
would take: from the file beside it (PEP 658), or from the wheel where there is none.
"""

import io
import json
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from email.parser import HeaderParser
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from pip._internal.models.index import PyPI

from tests.support.locks import LOCKS, PLACES, WHEELS, Pin, best_wheel, read

KNOWN = json.loads(WHEELS.read_text(encoding="utf-8")) if WHEELS.exists() else {}
JSON = "application/vnd.pypi.simple.v1+json"


def index() -> str:
    """The address of the index that pip asks."""
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"],
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or PyPI.simple_url


def fetched(address: str, accept: str = "*/*") -> bytes:
    request = Request(address, headers={"Accept": accept})  # noqa: S310  pip's own index
    with urlopen(request, timeout=60) as answer:  # noqa: S310  as above
        return answer.read()


def metadata(wheel: str) -> Message:
    try:
        text = fetched(wheel + ".metadata")
    except HTTPError as refused:
        if refused.code != HTTPStatus.NOT_FOUND:
            raise
        with zipfile.ZipFile(io.BytesIO(fetched(wheel))) as archive:
            (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
            text = archive.read(name)
    return HeaderParser().parsestr(text.decode())


def described(address: str, pin: Pin) -> dict[str, object]:
    """What is kept of a pinned version, which does not change: what was kept before is kept."""
    if (known := KNOWN.get(str(pin))) and set(known["wheels"].values()) <= pin.hashes:
        return known
    files = json.loads(fetched(f"{address.rstrip('/')}/{pin.name}/", JSON))["files"]
    of = {each["filename"]: each for each in files if each["hashes"].get("sha256") in pin.hashes}
    wheels = {name: of[name]["hashes"]["sha256"] for name in of if name.endswith(".whl")}
    chosen = {best_wheel(wheels, place) for place in PLACES if pin.holds(place)} - {None}
    said = set()
    for name in chosen:
        headers = metadata(of[name]["url"])
        said.add((headers["Requires-Python"] or "", tuple(headers.get_all("Requires-Dist", []))))
    if len(said) != 1:
        sys.exit(f"{pin}: its wheels differ in what they require: {said}")
    ((python, requires),) = said
    kept = {name: wheels[name] for name in sorted(chosen)}
    return {"python": python, "requires": requires, "wheels": kept}


def main() -> None:
    pins = {str(pin): pin for lock in LOCKS for pin in read(lock.path.read_text(encoding="utf-8"))}
    pins = {name: pin for name, pin in pins.items() if any(map(pin.holds, PLACES))}
    address = index()
    with ThreadPoolExecutor(16) as pool:
        kept = pool.map(lambda name: (name, described(address, pins[name])), sorted(pins))
        WHEELS.write_text(json.dumps(dict(kept), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
