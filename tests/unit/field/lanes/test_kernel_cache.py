"""The cache of compiled kernels: nothing stale, nothing foreign, and optional."""

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest

from field.lanes import cache, kernel_cache

ROOT = Path(cache.__file__).parents[2]

KERNELS = "from field.lanes import kernel\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a package with kernels, and put the cache in the test's directory."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "first.py").write_text(KERNELS)
    (package / "plain.py").write_text("x = 1\n")
    return package


def found(package: Path) -> cache.KernelCache:
    kernel_cache.cache_clear()
    cache = kernel_cache(package)
    assert cache is not None
    return cache


def test_a_cache_is_cold_once_and_warm_from_then_on(package: Path) -> None:
    first = found(package)
    assert first.directory.is_dir()
    assert not first.is_warm
    assert not first.has_others
    second = found(package)
    assert second.directory == first.directory
    assert second.is_warm
    assert not second.has_others


def test_an_edit_of_any_module_with_kernels_leaves_the_cache_behind(package: Path) -> None:
    before = found(package)
    (package / "second.py").write_text(KERNELS + "y = 2\n")
    after = found(package)
    assert after.directory != before.directory
    assert not after.is_warm
    assert after.has_others
    (package / "plain.py").write_text("x = 2\n")
    assert found(package).directory == after.directory


def test_another_processor_or_compiler_has_another_cache(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = {found(package).directory}
    for owner, name, value in (
        (numba.config, "CPU_NAME", "no processor"),
        (numba.config, "CPU_FEATURES", "+sse2"),
        (numba, "__version__", "0.0"),
    ):
        monkeypatch.setattr(owner, name, value)
        directories.add(found(package).directory)
    assert len(directories) == 4


def test_a_module_that_moves_within_its_package_leaves_the_cache_behind(package: Path) -> None:
    before = found(package)
    (package / "below").mkdir()
    (package / "first.py").rename(package / "below" / "first.py")
    assert found(package).directory != before.directory


def test_another_python_has_another_cache(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = found(package)
    python = SimpleNamespace(cache_tag="cpython-399")
    monkeypatch.setattr(cache, "sys", SimpleNamespace(implementation=python))
    assert found(package).directory != before.directory


def test_an_unwritable_directory_means_no_cache(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (package / "file").write_text("")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(package / "file" / "cache"))
    kernel_cache.cache_clear()
    assert kernel_cache(package) is None


def test_what_another_user_compiled_is_not_run(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found(package)

    def refused(**_settings: object) -> None:
        raise PermissionError

    monkeypatch.setattr(cache.tempfile, "TemporaryFile", refused)
    assert not found(package).is_writable
    monkeypatch.setattr(cache.os, "geteuid", lambda: os.getuid() + 1)
    if os.getuid() == 0:  # what root compiled is trusted
        os.chown(found(package).directory, 65534, 65534)
    kernel_cache.cache_clear()
    assert kernel_cache(package) is None


def test_the_default_cache_is_in_the_users_home(
    package: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert found(package).directory.is_relative_to(tmp_path / "home")

    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    kernel_cache.cache_clear()
    assert kernel_cache(package) is None


CALLER = """
from field.lanes import compile_here, kernel
from callee import constant
compile_here()
@kernel
def answer():
    return constant() + 1
print(answer())
"""
CALLEE = """
from field.lanes import kernel
@kernel
def constant():
    return {value}
"""


def run_caller(folder: Path, cache_directory: Path) -> str:
    """Run the caller of `folder` in a process of its own, and return what it printed."""
    environment = {
        **os.environ,
        "NUMBA_CACHE_DIR": str(cache_directory),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(  # noqa: S603  our own interpreter on our own file
        [sys.executable, folder / "caller.py"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def checkout(folder: Path, value: int) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "caller.py").write_text(CALLER)
    (folder / "callee.py").write_text(CALLEE.format(value=value))
    return folder


@pytest.mark.slow
def test_an_edited_callee_does_not_leave_a_stale_caller(tmp_path: Path) -> None:
    def run(value: int) -> str:
        return run_caller(checkout(tmp_path, value), tmp_path / "cache")

    assert run(1) == "2"
    assert run(10) == "11"
    assert run(1) == "2"


@pytest.mark.slow
def test_a_second_checkout_finds_what_the_first_one_compiled(tmp_path: Path) -> None:
    first, second = checkout(tmp_path / "a" / "kernels", 1), checkout(tmp_path / "b" / "kernels", 1)
    for path in second.iterdir():
        os.utime(path, (1, 1))  # Checked out at another time, too.
    kept = tmp_path / "cache"
    assert run_caller(first, kept) == "2"
    compiled = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert {path.name.partition("-")[0] for path in compiled} >= {"caller.answer"}
    assert run_caller(second, kept) == "2"
    assert {p: p.stat().st_mtime_ns for p in kept.rglob("*") if p.is_file()} == compiled


LOOKING = """
import sys
from field.lanes import KernelMissing, kernel
@kernel
def answer():
    return 1
try:
    answer()
except KernelMissing:
    print("missing;", "numba.np.arraymath" in sys.modules)
"""


@pytest.mark.slow
def test_a_missing_kernel_is_missed_before_numba_gets_ready_to_load_it(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(LOOKING)
    assert run_caller(tmp_path, tmp_path / "cache") == "missing; False"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_entry_is_compiled_and_kept_again(tmp_path: Path, kind: str) -> None:
    folder, kept = checkout(tmp_path / "kernels", 1), tmp_path / "cache"
    assert run_caller(folder, kept) == "2"
    (damaged,) = kept.rglob(f"caller.answer*.{kind}")
    damaged.write_bytes(b"")
    assert run_caller(folder, kept) == "2"
    mended = {path.name: path.stat().st_size for path in kept.rglob(f"caller.answer*.{kind}")}
    assert set(mended.values()) != {0}
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*") if path.is_file()}
    assert run_caller(folder, kept) == "2"
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_kernels_run_without_a_writable_cache(tmp_path: Path) -> None:
    folder = checkout(tmp_path, 4)
    (tmp_path / "file").write_text("")
    assert run_caller(folder, tmp_path / "file" / "cache") == "5"


def test_frozen_constants_come_from_modules_that_the_cache_watches() -> None:
    package = ROOT / "aggregator" / "vdaf" / "kernels"
    watched = set(cache._kernel_sources(package))
    assert {path.stem for path in watched} >= {"keccak", "xof", "arrays", "query", "decide"}
    # Within the package, modules of kernels import only watched modules, but for constants of
    # messages, which no kernel reads.
    for path in watched - {package / "message.py"}:
        text = path.read_text()
        if "\n@kernel\n" in text or "\n@inlined\n" in text:
            for name in re.findall(r"^from aggregator\.vdaf\.(\S+) import", text, re.MULTILINE):
                source = ROOT / "aggregator" / "vdaf" / f"{name.replace('.', '/')}.py"
                assert source in watched


def test_packages_of_kernels_that_call_each_other_share_a_cache() -> None:
    package = ROOT / "aggregator" / "vdaf" / "kernels"
    assert cache.home(package / "chunks" / "query.py") == package
    assert cache.home(package / "keccak.py") == package
    assert cache.home(ROOT / "field" / "_halves.py") == ROOT / "field"
