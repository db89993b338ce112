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

/** An estimate of what a message takes beside its value, in bytes: key, headers, bookkeeping. */
const overhead = 512

export class PartitionLog {
  /** Of a compacted log: the offset of the newest message of each key. */
  readonly #newest: Map<string, number> | undefined
  /** The message with offset `base + index`; undefined if it was dropped or compacted. */
  #entries: (StoredMessage | undefined)[] = []
  #base = 0
  #begin = 0
  #weight = 0

  /** `compacted`: a message replaces the one before it with its key, whose offset stays empty. */
  constructor(compacted: boolean) {
    this.#newest = compacted ? new Map() : undefined
  }

  /** The offset of the oldest message that may still be there. */
  get begin(): number {
    return this.#begin
  }

  /** The offset of the next message. */
  get end(): number {
    return this.#base + this.#entries.length
  }

  append({ key, value, headers, timestamp }: Omit<StoredMessage, 'offset' | 'weightBefore'>): void {
    const offset = this.end
    this.#entries.push({ offset, key, value, headers, timestamp, weightBefore: this.#weight })
    this.#weight += value.byteLength + overhead
    const replaced = this.#newest?.get(key)
    if (replaced !== undefined && replaced >= this.#base) this.#entries[replaced - this.#base] = undefined
    this.#newest?.set(key, offset)
    while (this.#entries[this.#begin - this.#base] === undefined) this.#begin++ // ends at the new message at the latest
    this.#cut()
  }

  /** The first message at this offset or behind it. */
  from(offset: number): StoredMessage | undefined {
    for (let index = Math.max(offset, this.#begin) - this.#base; index < this.#entries.length; index++) {
      if (this.#entries[index] !== undefined) return this.#entries[index]
    }
    return undefined
  }

  /** Bytes from this offset to the end. */
  weightFrom(offset: number): number {
    return this.#weight - (this.from(offset)?.weightBefore ?? this.#weight)
  }

  /** Forgets everything below an offset. */
  drop(below: number): void {
    const stop = Math.min(below, this.end)
    for (; this.#begin < stop; this.#begin++) this.#entries[this.#begin - this.#base] = undefined
    this.#cut()
  }

  /** Cuts the array when half of it is empty: so each message moves about once. */
  #cut(): void {
    const empty = this.#begin - this.#base
    if (empty <= 64 || empty <= this.#entries.length / 2) return
    this.#entries = this.#entries.slice(empty)
    this.#base = this.#begin
  }
}
