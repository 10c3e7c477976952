"""Transposing between rows of bytes, one per report, and lane arrays.

Shares, nonces and messages lie in memory one report after another; kernels compute with words of
many reports side by side. A row may begin at any byte and have any size.
"""

from collections.abc import Sequence

from field.lanes.arrays import CACHE_LINE_SIZE, WORD_SIZE, Bytes, LaneArray
from field.lanes.jit import LaneWidth, inlined
from field.lanes.operations import operation
from field.lanes.words import Code, Integer, Place, Rows, Word


@operation
def copy_rows(
    code: Code,
    out: Rows,
    out_stride: Integer,
    source: Rows,
    source_stride: Integer,
    size: Integer,
) -> None:
    """Copy `size` bytes of each lane's row; a stride of 0 copies one row to all lanes."""
    for lane in range(code.lanes):
        target, origin = out.row(lane, out_stride), source.row(lane, source_stride)
        code.copy_bytes(target.position, origin.position, size)


@operation
def transpose_in(code: Code, out: Place, rows: Rows, stride: Integer, blocks: Integer) -> None:
    """Gather from each lane's row `blocks` blocks, each of as many words as there are lanes."""
    for block in code.repeat(blocks):
        first_byte = block * (WORD_SIZE * code.lanes)
        source = rows.moved(first_byte)
        words = [source.load(lane, stride) for lane in range(code.lanes)]
        out.moved(block * code.lanes).store_many(transposed(code, words))


@operation
def transpose_out(code: Code, rows: Rows, stride: Integer, source: Place) -> None:
    """Write to each lane's row as many words as there are lanes from a lane array."""
    for lane, word in enumerate(transposed(code, source.load_many(code.lanes))):
        rows.store(word, lane, stride)


@operation
def transpose_some_in(code: Code, out: Place, rows: Rows, stride: Integer, count: Integer) -> None:
    """As `transpose_in`, for `count` words, fewer than there are lanes; the rest become 0."""
    words = [rows.load_some(lane, stride, count) for lane in range(code.lanes)]
    out.store_many(transposed(code, words))


@operation
def transpose_some_out(
    code: Code, rows: Rows, stride: Integer, source: Place, count: Integer
) -> None:
    """As `transpose_out`, for `count` words, fewer than there are lanes."""
    for lane, word in enumerate(transposed(code, source.load_many(code.lanes))):
        rows.store_some(word, lane, stride, count)


@operation
def fetch_lines(code: Code, rows: Rows, stride: Integer, count: Integer) -> None:
    """Prefetch `count` cache lines of each lane's row, which the kernel will soon read or write.

    A row has only a few lines, too few for the processor to detect that they are read in sequence.
    """
    for line in code.repeat(count):
        for lane in range(code.lanes):
            code.fetch(rows.row(lane, stride).moved(line * CACHE_LINE_SIZE).position)


@operation
def word_out(_code: Code, rows: Rows, stride: Integer, source: Place) -> None:
    """Write one word per lane to rows of one word, which are laid out as a lane array is."""
    rows.store(source.load(), 0, stride)


@inlined
def fetch_part(width: LaneWidth, rows: Bytes, first: int, part: int, parts: int) -> None:
    """Prefetch one of `parts` equal parts of each lane's row, from row `first` on, if any.

    The number of rows is a multiple of the number of lanes. Prefetch one part at a time, with work
    between: the processor waits if asked for too much at once.
    """
    size = rows.shape[1]
    lines = -(-size // (parts * CACHE_LINE_SIZE))
    start = part * lines * CACHE_LINE_SIZE
    if start < size and first < rows.shape[0]:
        left = -(-(size - start) // CACHE_LINE_SIZE)
        fetch_lines(width, (rows, first * size + start), size, min(lines, left))


@inlined
def rows_to_words(
    width: LaneWidth,
    out: LaneArray,
    out_row: int,
    rows: Bytes,
    first_byte: int,
    stride: int,
    count: int,
) -> None:
    """Gather `count` words, at least one, of each lane's row.

    It writes at least as many rows of the lane array as there are lanes: those after the first
    `count` become 0.
    """
    lanes = len(width)
    if count < lanes:
        transpose_some_in(width, (out, out_row), (rows, first_byte), stride, count)
        return
    transpose_in(width, (out, out_row), (rows, first_byte), stride, count // lanes)
    if count % lanes > 0:
        # Some words are gathered again.
        word = count - lanes
        transpose_in(width, (out, out_row + word), (rows, first_byte + WORD_SIZE * word), stride, 1)


@inlined
def words_to_rows(
    width: LaneWidth,
    rows: Bytes,
    first_byte: int,
    stride: int,
    source: LaneArray,
    source_row: int,
    size: int,
    block: Bytes | LaneArray,
) -> None:
    """Write `size` bytes of each lane's words to its row.

    `block` is scratch for bytes at the end that do not fill a word. It has at least as many words
    for each lane as there are lanes.
    """
    lanes = len(width)
    if size == stride == WORD_SIZE:
        word_out(width, (rows, first_byte), stride, (source, source_row))
        return
    words = size // WORD_SIZE
    whole = words - words % lanes
    for word in range(0, whole, lanes):
        place = first_byte + WORD_SIZE * word
        transpose_out(width, (rows, place), stride, (source, source_row + word))
    if whole < words:
        place = first_byte + WORD_SIZE * whole
        transpose_some_out(
            width, (rows, place), stride, (source, source_row + whole), words - whole
        )
    if WORD_SIZE * words < size:
        place, step = first_byte + WORD_SIZE * words, WORD_SIZE * lanes
        transpose_out(width, (block, 0), step, (source, source_row + words))
        copy_rows(width, (rows, place), stride, (block, 0), step, size - WORD_SIZE * words)


def transposed(code: Code, words: Sequence[Word]) -> list[Word]:
    """Return as many words as there are lanes, element l of word i now element i of word l."""
    # For each bit of the indices, words whose indices differ only in it exchange halves.
    result = list(words)
    bit = 1
    while bit < code.lanes:
        for i in range(code.lanes):
            if i & bit:
                continue
            first, second = result[i], result[i | bit]
            low = [
                lane if not lane & bit else code.lanes + lane - bit for lane in range(code.lanes)
            ]
            high = [
                lane + bit if not lane & bit else code.lanes + lane for lane in range(code.lanes)
            ]
            result[i] = code.shuffled(first, second, low)
            result[i | bit] = code.shuffled(first, second, high)
        bit *= 2
    return result
