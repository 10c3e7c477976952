"""Streams to residues: what is skipped, and what keeps uses apart."""

import numpy as np
import pytest
from Crypto.Hash import TurboSHAKE128

from aggregator.errors import ParameterError
from aggregator.vdaf import xof
from aggregator.vdaf.xof import ByteRows
from field import FIELD64, FIELD128, Field
from tests.support.residues import rows_to_ints

DST = b"some tag"


def stream_of(numbers: list[int], size: int) -> bytes:
    return b"".join(number.to_bytes(size, "little") for number in numbers)


@pytest.mark.parametrize("field", [FIELD64, FIELD128], ids=str)
@pytest.mark.parametrize("spoilt", [[0], [4], [1, 2], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]], ids=str)
def test_a_word_that_is_not_a_residue_is_skipped_in_its_row_only(
    field: Field, spoilt: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    size, wanted = field.encoded_size, 5
    streams = np.stack(
        [
            np.frombuffer(stream_of([row * 100 + i for i in range(40)], size), dtype=np.uint8)
            for row in range(3)
        ]
    )
    numbers = [100 + i for i in range(40)]
    for place, number in zip(spoilt, [field.modulus, 2 ** (8 * size) - 1] * 5, strict=False):
        numbers[place] = number
    streams[1] = np.frombuffer(stream_of(numbers, size), dtype=np.uint8)
    asked: list[int] = []

    def fake(messages: ByteRows, domain: int, output_size: int) -> ByteRows:
        assert (len(messages), domain) == (3, 0x01)
        asked.append(output_size)
        return streams[:, :output_size].copy()

    monkeypatch.setattr(xof, "turboshake128", fake)
    vectors = xof.expand_into_vectors(field, wanted, 3, bytes(32), DST)
    kept = [number for number in numbers if number < field.modulus][:wanted]
    assert rows_to_ints(vectors) == [list(range(5)), kept, list(range(200, 205))]
    assert asked[0] == wanted * size
    assert len(asked) == 1 + -(-len(spoilt) // xof.SPARE_WORDS)


@pytest.mark.parametrize("size", [0, 1, 130, 168, 400])
def test_streams_are_turboshake_of_tag_seed_and_binder(size: int) -> None:
    seeds = np.arange(96, dtype=np.uint8).reshape(3, 32)
    binders = np.arange(3 * size, dtype=np.int64).astype(np.uint8).reshape(3, size)
    derived = xof.derive_seeds(3, seeds, DST, b"\x07", binders)
    for row in range(3):
        message = len(DST).to_bytes(2, "little") + DST + b"\x20" + seeds[row].tobytes()
        message += b"\x07" + binders[row].tobytes()
        expected = TurboSHAKE128.new(domain=1, data=message).read(32)
        assert derived[row].tobytes() == expected


def test_a_tag_holds_version_class_algorithm_usage_and_context() -> None:
    tag = xof.domain_separation_tag(0xFFFFFFFF, xof.USAGE_QUERY_RANDOMNESS, b"ctx")
    assert tag.hex() == (
        "12"  # version
        "00"  # class: VDAF
        "ffffffff"  # algorithm id
        "0005"  # usage
        "637478"  # ctx
    )
    with pytest.raises(ParameterError, match="ctx must have at most 65527 bytes, not 65528"):
        xof.domain_separation_tag(1, 1, bytes(65528))
    assert len(xof.domain_separation_tag(1, 1, bytes(65527))) == 65535
