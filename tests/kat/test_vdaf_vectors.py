"""Test vectors replayed step by step: our own, made by the oracle, and the published ones.

`VDAF_TEST_VECTORS` names a folder with the published ones; they are not part of this repository.
What makes the others was compared with them: the oracle gives the published bytes at every step.
"""

import json
import os
from pathlib import Path

import pytest

from aggregator.vdaf.check import XOF_TYPE, run_vector_file, type_name
from aggregator.vdaf.experimental import EXPERIMENTAL
from aggregator.vdaf.instances import TYPES
from tests.support.prio3_batches import CTX, PATHS, oracle_of, take_path
from tests.support.vdaf_oracle import Rejected
from tests.support.vdaf_vectors import CASES, FOLDER, SKIPPING_SEEDS, Case, all_vectors

PRIVATE_USE = 0xFFFF0000
"""From here on code points are for types that no draft has, and for which none has vectors."""

ALL_TYPES = {**TYPES, **EXPERIMENTAL}

UNSET = (
    "VDAF_TEST_VECTORS is not set: the published vectors are in the folder test_vec/vdaf of the "
    "repository cfrg/draft-irtf-cfrg-vdaf"
)


def published() -> Path | None:
    folder = os.environ.get("VDAF_TEST_VECTORS")
    return Path(folder) if folder else None


def vector_files() -> list[Path]:
    folder = published()
    return sorted(folder.glob("*.json")) if folder else []


def published_files(*, of_types: bool = False) -> list[object]:
    """All files, or those about a Prio3, as test parameters; without any, one that says why."""
    files = [file for file in vector_files() if type_name(file.name) in ALL_TYPES or not of_types]
    if not files:
        reason = UNSET if published() is None else "VDAF_TEST_VECTORS names no folder with vectors"
        return [pytest.param(Path(), marks=pytest.mark.skip(reason=reason), id="none")]
    return [pytest.param(file, id=file.stem) for file in files]


def own_files() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


@pytest.fixture
def folder() -> Path:
    folder = published()
    if folder is None:
        pytest.skip(UNSET)
    assert folder.is_dir(), f"VDAF_TEST_VECTORS names no folder: {folder}"
    return folder


def test_the_folder_of_published_vectors_has_some(folder: Path) -> None:
    assert list(folder.glob("Prio3*.json"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("file", published_files())
def test_a_published_vector_passes(file: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_path(path, monkeypatch)
    run_vector_file(file.name, file.read_text())


def test_every_published_file_about_prio3_has_a_type_and_every_type_a_file(folder: Path) -> None:
    names = {type_name(file.name) for file in folder.glob("*.json")}
    unknown = {name for name in names if name.startswith("Prio3") and name not in ALL_TYPES}
    assert not unknown
    private = {row.name for row in TYPES.values() if row.algorithm_id >= PRIVATE_USE}
    # L1BoundSum's vectors are published with its own draft.
    assert {*ALL_TYPES, XOF_TYPE} - private - names <= {"Prio3L1BoundSum"}


def test_no_file_of_the_folder_is_left_unconsumed(folder: Path) -> None:
    # Poplar1, its IDPF and the fixed-key AES XOF are other VDAFs' business.
    other = ("Poplar1", "Idpf", "XofFixedKeyAes128")
    left = [
        file.name
        for file in sorted(folder.glob("*.json"))
        if type_name(file.name) not in {*ALL_TYPES, XOF_TYPE} and not file.name.startswith(other)
    ]
    assert not left, f"no type consumes {left}"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "file",
    [
        pytest.param(file, marks=[pytest.mark.slow] if file.stem == "Prio3Sections_own" else [])
        for file in own_files()
    ],
    ids=lambda file: file.stem,
)
def test_a_vector_of_our_own_passes(file: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    take_path(path, monkeypatch)
    run_vector_file(file.name, file.read_text())


@pytest.mark.parametrize("file", published_files(of_types=True))
def test_the_oracle_agrees_with_a_published_vector(file: Path) -> None:
    name = type_name(file.name)
    vector = json.loads(file.read_text())
    parameters = {each.name: vector[each.name] for each in ALL_TYPES[name].parameters}
    oracle = oracle_of(ALL_TYPES[name].prio3(parameters, vector["shares"]))
    ctx, verify_key = bytes.fromhex(vector["ctx"]), bytes.fromhex(vector["verify_key"])
    for report in vector["reports"]:
        nonce, public_share = (bytes.fromhex(report[key]) for key in ("nonce", "public_share"))
        input_shares = [bytes.fromhex(share) for share in report["input_shares"]]
        if report["measurement"] is not None:
            sharded = oracle.shard(ctx, report["measurement"], nonce, bytes.fromhex(report["rand"]))
            assert sharded == (public_share, input_shares)
        verifier_shares = [bytes.fromhex(share) for share in report["verifier_shares"][0]]
        for agg_id, published_share in enumerate(verifier_shares):
            _, _, verifier_share = oracle.verify_init(
                verify_key, ctx, agg_id, nonce, public_share, input_shares[agg_id]
            )
            assert verifier_share == published_share
        if len(verifier_shares) < len(input_shares):
            continue
        if report["verifier_messages"]:
            message = oracle.verifier_shares_to_message(ctx, verifier_shares)
            assert message.hex() == report["verifier_messages"][0]
        else:
            with pytest.raises(Rejected):
                oracle.verifier_shares_to_message(ctx, verifier_shares)


@pytest.mark.slow
def test_our_own_vectors_are_what_the_oracle_makes() -> None:
    committed = {file.name: json.loads(file.read_text()) for file in own_files()}
    assert json.loads(json.dumps(all_vectors())) == committed


def test_every_type_has_vectors_of_our_own_with_honest_clients_and_bad_ones() -> None:
    for name in (*TYPES, XOF_TYPE):
        assert any(type_name(file.name) == name for file in own_files()), name
    for name in TYPES:
        cases = [case for case in CASES if type_name(case.file) == name]
        assert any(case.measurements for case in cases), name
        assert any(case.false_residues for case in cases), name
        assert any(case.changes for case in cases), name


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.file)
def test_what_is_false_or_changed_is_rejected_and_the_rest_is_not(case: Case) -> None:
    vector = json.loads((FOLDER / f"{case.file}.json").read_text())
    honest = len(case.measurements)
    rejected = {step["report_index"] for step in vector["operations"] if not step["success"]}
    assert rejected == set(range(honest, len(vector["reports"])))


def test_the_chosen_seeds_make_streams_with_a_word_that_is_not_a_residue() -> None:
    prio3 = TYPES["Prio3Sum"].prio3({"max_measurement": 2**63 - 1})
    oracle = oracle_of(prio3)
    for seed, usage, binder, place in zip(
        SKIPPING_SEEDS, (1, 2), (b"\x01", b"\x01\x01"), (29, 109), strict=True
    ):
        stream = oracle.stream(seed, usage, CTX, binder).read(8 * (place + 1))
        assert int.from_bytes(stream[-8:], "little") >= prio3.field.modulus
