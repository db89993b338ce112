// One partition of the memory broker: messages by offset, appended at the end and dropped from the front.
// Nothing here takes time in proportion to the length of the log.

export interface StoredMessage {
  readonly offset: number
  readonly key: string
  readonly value: Uint8Array
  readonly headers: Readonly<Record<string, string>>
  readonly timestamp: number
  /** The weight of everything in this partition before this message, dropped messages included. */
  readonly weightBefore: number
}

/** What a message takes beside its value, in bytes: key, headers, bookkeeping. An estimate. */
const overhead = 512

export interface PartitionLog {
  append(message: Pick<StoredMessage, 'key' | 'value' | 'headers' | 'timestamp'>): void
  /** The first message at this offset or behind it. */
  from(offset: number): StoredMessage | undefined
  /** Bytes from this offset to the end. */
  weightFrom(offset: number): number
  /** Forgets everything below an offset. */
  drop(below: number): void
  /** The offset of the oldest message that may still be there. */
  readonly begin: number
  /** The offset of the next message. */
  readonly end: number
}

/** `compacted`: a message takes the place of the one before it with its key, whose offset stays empty. */
export function createPartitionLog(compacted: boolean): PartitionLog {
  const newest = compacted ? new Map<string, number>() : undefined
  // The message with offset `base + index`; undefined where it was dropped or compacted away.
  let entries: (StoredMessage | undefined)[] = []
  let base = 0
  let begin = 0
  let weight = 0

  const end = () => base + entries.length
  const from = (offset: number) => {
    for (let index = Math.max(offset, begin) - base; index < entries.length; index++) {
      if (entries[index] !== undefined) return entries[index]
    }
    return undefined
  }

  // When half of the array is empty: so each message moves about once.
  const cut = () => {
    if (begin - base <= 64 || begin - base <= entries.length / 2) return
    entries = entries.slice(begin - base)
    base = begin
  }

  return {
    from,
    append({ key, value, headers, timestamp }) {
      const offset = end()
      entries.push({ offset, key, value, headers, timestamp, weightBefore: weight })
      weight += value.byteLength + overhead
      const replaced = newest?.get(key)
      if (replaced !== undefined && replaced >= base) entries[replaced - base] = undefined
      newest?.set(key, offset)
      while (entries[begin - base] === undefined) begin++ // at the latest the new message is there
      cut()
    },
    weightFrom(offset) {
      return weight - (from(offset)?.weightBefore ?? weight)
    },
    drop(below) {
      const stop = Math.min(below, end())
      for (; begin < stop; begin++) entries[begin - base] = undefined
      cut()
    },
    get begin() {
      return begin
    },
    get end() {
      return end()
    },
  }
}
