"""Coverage-guided fuzzing of every decoder, on demand: `make fuzz`, or `python -m tests.fuzz`.

One decoder after another, each in a process of its own, for a given time on the clock. What is
found to take a new way is minimised into `corpus`, one input per line in hexadecimal, which `make
test` replays. A fault ends the run with its input and traceback.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MAX_BYTES = 1024
SECONDS = 60


def fuzz(name: str, arguments: list[str]) -> None:
    """Fuzz one decoder in this process, which libFuzzer ends."""
    import atheris  # noqa: PLC0415  only where it is asked for: it is for Linux on x86-64

    with atheris.instrument_imports(include=["aggregator", "tests.support.decoders"]):
        from tests.support.decoders import DECODERS  # noqa: PLC0415  instrumented as it is imported

    # The first is how libFuzzer starts itself again, in a shell.
    again = f"{sys.executable} -m tests.fuzz --one {name}"
    atheris.Setup([again, *arguments], DECODERS[name].check)
    atheris.Fuzz()


def run(name: str, seconds: int) -> None:
    """Fuzz one decoder in another process, and keep a minimal corpus.

    Raises:
        SystemExit: It found a fault.
    """
    from tests.support.decoders import DECODERS  # noqa: PLC0415  not where it is instrumented

    kept = CORPUS / f"{name}.hex"
    with tempfile.TemporaryDirectory() as folder:
        found, least = Path(folder, "found"), Path(folder, "least")
        for each in (found, least):
            each.mkdir()
        _write(found, DECODERS[name].seeds)
        if kept.exists():
            _write(found, map(bytes.fromhex, kept.read_text().splitlines()))
        begin = _processor_seconds()
        _call(name, f"-max_total_time={seconds}", f"-max_len={MAX_BYTES}", folder=found)
        spent = _processor_seconds() - begin
        _call(name, "-merge=1", str(least), folder=found)
        inputs = sorted((file.read_bytes() for file in least.iterdir()), key=lambda i: (len(i), i))
        kept.write_text("".join(f"{each.hex()}\n" for each in inputs if each))
    print(f"{name}: {spent:.0f} s of processor time, {len(inputs)} inputs kept", flush=True)  # noqa: T201  the outcome


def _write(folder: Path, inputs: Iterable[bytes]) -> None:
    for number, data in enumerate(inputs, len(list(folder.iterdir()))):
        (folder / f"{number}").write_bytes(data)


def _call(name: str, *arguments: str, folder: Path) -> None:
    # A fault's input is printed too, in base64; no file of it is left where one happens to be.
    command = [sys.executable, "-m", "tests.fuzz", "--one", name, *arguments, str(folder)]
    command.append(f"-artifact_prefix={folder}/")
    done = subprocess.run(  # noqa: S603  our own command
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{name}:\n{done.stdout[-8000:]}")


def _processor_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Fuzz the decoders that are named, or all."""
    if sys.argv[1:2] == ["--one"]:
        fuzz(sys.argv[2], sys.argv[3:])
    from tests.support.decoders import DECODERS  # noqa: PLC0415  not where it is instrumented

    parser = argparse.ArgumentParser(description="Fuzz decoders.")
    parser.add_argument("names", nargs="*", help="decoders; all if none is named")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="for each decoder")
    options = parser.parse_args()
    for name in options.names or DECODERS:
        run(name, options.seconds)


if __name__ == "__main__":
    main()
