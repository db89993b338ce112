// CRC-32C (Castagnoli), the checksum of Kafka's record batches, eight bytes at a time ("slicing-by-8"). Node has CRC-32 only, which
// has another polynomial.

const polynomial = 0x82f63b78
/** Table k, at 256 * k, says what a byte with k bytes behind it adds. */
let tables: Int32Array | undefined

/** The checksum of the bytes, as an unsigned integer. */
export function crc32c(bytes: Uint8Array): number {
  tables ??= createTables()
  const t = tables
  // Words of 32 bits, little-endian as on every machine that Node runs on, begin at a multiple of four bytes.
  const first = -bytes.byteOffset & 3
  if (bytes.length < first) return ~update(t, -1, bytes) >>> 0
  const words = new Int32Array(bytes.buffer, bytes.byteOffset + first, ((bytes.length - first) >> 3) * 2)
  let crc = update(t, -1, bytes.subarray(0, first))
  for (let index = 0; index < words.length; index += 2) {
    const low = crc ^ words[index]!
    const high = words[index + 1]!
    crc =
      t[1792 + (low & 0xff)]! ^
      t[1536 + ((low >>> 8) & 0xff)]! ^
      t[1280 + ((low >>> 16) & 0xff)]! ^
      t[1024 + (low >>> 24)]! ^
      t[768 + (high & 0xff)]! ^
      t[512 + ((high >>> 8) & 0xff)]! ^
      t[256 + ((high >>> 16) & 0xff)]! ^
      t[high >>> 24]!
  }
  return ~update(t, crc, bytes.subarray(first + words.byteLength)) >>> 0
}

function update(table: Int32Array, before: number, bytes: Uint8Array): number {
  let crc = before
  for (const byte of bytes) crc = table[(crc ^ byte) & 0xff]! ^ (crc >>> 8)
  return crc
}

function createTables(): Int32Array {
  const made = new Int32Array(8 * 256)
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? polynomial : 0)
    made[byte] = crc
  }
  for (let at = 256; at < made.length; at++)
    made[at] = made[made[at - 256]! & 0xff]! ^ (made[at - 256]! >>> 8)
  return made
}
