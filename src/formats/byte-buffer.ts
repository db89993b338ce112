// The bytes of an incomplete text. The buffer grows up to a limit; beyond that only the beginning is kept.

/** Bytes that are kept of a text that is too large: enough for 200 characters. */
const openingBytes = 800

export interface ByteBuffer {
  /** Everything appended since the last `take`, whether or not it was kept. */
  readonly size: number
  append(bytes: Uint8Array): void
  /** A copy of what was appended, or of its opening if that was more than the limit; the buffer is empty afterwards. */
  take(): { readonly bytes: Uint8Array; readonly oversized: boolean }
}

export function createByteBuffer(limit: number): ByteBuffer {
  let held = new Uint8Array(Math.min(limit, 1024))
  let size = 0
  return {
    get size() {
      return size
    },
    append(bytes) {
      const before = size
      size += bytes.length
      if (before > limit) return
      const kept = size > limit ? bytes.subarray(0, limit - before) : bytes
      if (before + kept.length > held.length) {
        const larger = new Uint8Array(Math.min(limit, Math.max(2 * held.length, before + kept.length)))
        larger.set(held.subarray(0, before))
        held = larger
      }
      held.set(kept, before)
      if (size > limit) held = held.slice(0, Math.min(limit, openingBytes))
    },
    take() {
      const oversized = size > limit
      const bytes = held.slice(0, Math.min(size, held.length))
      size = 0
      return { bytes, oversized }
    },
  }
}
