/**
 * XofTurboShake128: an endless stream of random bytes out of a seed.
 *
 * Source: VDAF, "XofTurboShake128"; RFC 9861, "TurboSHAKE".
 */

const RATE = 168;
const DOMAIN = 1;

// The last 12 round constants of Keccak-f[1600], low word and high word in turn.
const CONSTANTS = new Int32Array([
  0x8000808b, 0, 0x8b, 0x80000000, 0x8089, 0x80000000, 0x8003, 0x80000000, 0x8002, 0x80000000, 0x80,
  0x80000000, 0x800a, 0, 0x8000000a, 0x80000000, 0x80008081, 0x80000000, 0x8080, 0x80000000,
  0x80000001, 0, 0x80008008, 0x80000000,
]);
// Steps rho and pi: where each lane moves, beginning with the second, and by how much it is rotated.
const LANES = [], ROTATIONS = [];
for (let i = 1, x = 1, y = 0; i <= 24; i++) {
  [x, y] = [y, (2 * x + 3 * y) % 5];
  LANES.push(x + 5 * y);
  ROTATIONS.push(((i * (i + 1)) / 2) % 64);
}

/** Keccak-p[1600, 12], on 25 lanes of a low and a high word each. */
function permute(s, c) {
  for (let round = 0; round < 24; round += 2) {
    for (let x = 0; x < 10; x++) c[x] = s[x] ^ s[x + 10] ^ s[x + 20] ^ s[x + 30] ^ s[x + 40];
    for (let x = 0; x < 10; x += 2) {
      const from = (x + 8) % 10, low = c[(x + 2) % 10], high = c[((x + 2) % 10) + 1];
      const d0 = c[from] ^ ((low << 1) | (high >>> 31));
      const d1 = c[from + 1] ^ ((high << 1) | (low >>> 31));
      for (let y = x; y < 50; y += 10) {
        s[y] ^= d0;
        s[y + 1] ^= d1;
      }
    }
    let low = s[2], high = s[3];
    for (let i = 0; i < 24; i++) {
      const lane = 2 * LANES[i], shift = ROTATIONS[i] & 31;
      const turned = (low << shift) | (high >>> (32 - shift));
      const other = (high << shift) | (low >>> (32 - shift));
      const isSwapped = ROTATIONS[i] >> 5; // by 32 or more
      low = s[lane];
      high = s[lane + 1];
      s[lane + isSwapped] = turned;
      s[lane + 1 - isSwapped] = other;
    }
    for (let y = 0; y < 50; y += 10) {
      for (let x = 0; x < 10; x++) c[x] = s[y + x];
      for (let x = 0; x < 10; x++) s[y + x] ^= ~c[(x + 2) % 10] & c[(x + 4) % 10];
    }
    s[0] ^= CONSTANTS[round];
    s[1] ^= CONSTANTS[round + 1];
  }
}

/** The stream of one seed, domain separation tag and binder. */
export class Xof {
  constructor(seed, tag, ...binder) {
    const head = new Uint8Array(tag.length + 3);
    head.set([tag.length & 255, tag.length >> 8]);
    head.set(tag, 2);
    head[tag.length + 2] = seed.length;
    this.state = new Int32Array(50);
    this.columns = new Int32Array(10);
    this.block = new Uint8Array(RATE);
    this.at = 0;
    for (const part of [head, seed, ...binder, [DOMAIN]]) this.absorb(part);
    this.block[RATE - 1] ^= 0x80;
    this.mix();
    this.squeeze();
  }

  absorb(bytes) {
    for (let i = 0; i < bytes.length; i++) {
      if (this.at === RATE) this.mix();
      this.block[this.at++] = bytes[i];
    }
  }

  /** Add the block to the state, permute, and begin another. */
  mix() {
    const view = new DataView(this.block.buffer);
    for (let i = 0; i < RATE / 4; i++) this.state[i] ^= view.getInt32(4 * i, true);
    permute(this.state, this.columns);
    this.block.fill(0);
    this.at = 0;
  }

  squeeze() {
    const view = new DataView(this.block.buffer);
    for (let i = 0; i < RATE / 4; i++) view.setInt32(4 * i, this.state[i], true);
    this.at = 0;
  }

  /** The next `size` bytes. */
  next(size) {
    const bytes = new Uint8Array(size);
    for (let i = 0; i < size; ) {
      if (this.at === RATE) {
        permute(this.state, this.columns);
        this.squeeze();
      }
      const taken = Math.min(size - i, RATE - this.at);
      bytes.set(this.block.subarray(this.at, this.at + taken), i);
      i += taken;
      this.at += taken;
    }
    return bytes;
  }

  /** Overwrite what the stream is made from. */
  erase() {
    this.state.fill(0);
    this.columns.fill(0);
    this.block.fill(0);
  }
}
