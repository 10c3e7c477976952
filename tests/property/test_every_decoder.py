"""Every decoder, of bytes near to good ones and of any: its own error or a value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.decoders import DECODERS
from tests.support.raw_requests import mutated

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.data())
@settings(max_examples=50)
def test_changed_bytes_end_a_decoder_only_by_its_own_error(name: str, data: st.DataObject) -> None:
    decoder = DECODERS[name]
    decoder.check(data.draw(st.sampled_from(decoder.seeds).flatmap(mutated)))
