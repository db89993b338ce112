// Pulsar's message ids: `MessageIdData` in protobuf and base64 on the WebSocket, `ledger:entry[:index]` as our position.
// Only varint fields are read; unknown fields are skipped.

/** The position of a message. `partition` is -1 on a topic without partitions, `batchIndex` -1 outside a batch. */
export interface MessageId {
  readonly ledger: number
  readonly entry: number
  readonly partition: number
  readonly batchIndex: number
  readonly batchSize: number
}

/** Reads an id as the WebSocket API writes it. Throws RangeError when the bytes end early. */
export function decodeMessageId(base64: string): MessageId {
  const bytes = Buffer.from(base64, 'base64')
  const fields = [0, 0, 0, -1, -1, 0, 0]
  let at = 0
  const varint = (): number => {
    let value = 0
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes.readUInt8(at++)
      value += (byte & 127) * scale
      if (byte < 128) break
    }
    return value > Number.MAX_SAFE_INTEGER ? -1 : value // A negative number is written as 2^64 - n; only -1 is used.
  }
  while (at < bytes.length) {
    const tag = varint()
    const value = varint()
    if ((tag & 7) === 2) at += value
    else fields[tag >> 3] = value
  }
  const [, ledger = 0, entry = 0, partition = -1, batchIndex = -1, , batchSize = 0] = fields
  return { ledger, entry, partition, batchIndex, batchSize }
}

/** Writes an id for the reader endpoint. All numbers but `partition` and `batchIndex` must be at least 0. */
export function encodeMessageId(id: Omit<MessageId, 'batchSize'>): string {
  const bytes = [
    8,
    ...varintOf(id.ledger),
    16,
    ...varintOf(id.entry),
    24,
    ...varintOf(Math.max(0, id.partition)),
  ]
  if (id.batchIndex >= 0) bytes.push(32, ...varintOf(id.batchIndex))
  return Buffer.from(bytes).toString('base64')
}

/** `ledger:entry`, and the index for a message of a batch, as Pulsar's own tools print it. */
export function positionOf(id: MessageId): string {
  return id.batchIndex < 0 ? `${id.ledger}:${id.entry}` : `${id.ledger}:${id.entry}:${id.batchIndex}`
}

/** The inverse of `positionOf`, or undefined when the text is no position. */
export function parsePosition(position: string, partition: number): MessageId | undefined {
  const match = /^(\d+):(\d+)(?::(\d+))?$/.exec(position)
  if (match === null) return undefined
  const [, ledger, entry, index = '-1'] = match
  return { ledger: Number(ledger), entry: Number(entry), partition, batchIndex: Number(index), batchSize: 0 }
}

/** Whether all messages up to `end` have come when `id` has. `end` names an entry, which is a whole batch. */
export function reaches(id: MessageId, end: { readonly ledger: number; readonly entry: number }): boolean {
  if (id.ledger !== end.ledger) return id.ledger > end.ledger
  if (id.entry !== end.entry) return id.entry > end.entry
  return id.batchIndex < 0 || id.batchSize === 0 || id.batchIndex === id.batchSize - 1
}

/** Whether `id` comes after `other` in their partition. A batch counts as a whole when `other` names no message in it. */
export function isBehind(id: MessageId, other: MessageId): boolean {
  if (id.ledger !== other.ledger) return id.ledger > other.ledger
  if (id.entry !== other.entry) return id.entry > other.entry
  return other.batchIndex >= 0 && id.batchIndex > other.batchIndex
}

function varintOf(value: number): number[] {
  const bytes: number[] = []
  let rest = value
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  bytes.push(rest)
  return bytes
}
