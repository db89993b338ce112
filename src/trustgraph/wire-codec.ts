// A codec that writes and reads JSON on TrustGraph's topics, and Avro on all others.
import { createHash } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import type { Codec, Receipt, Sealing } from '../messages/codec.ts'
import type { Header, HeaderInit, Message, TypedPayload } from '../messages/envelope.ts'
import { readMessage, type WireBytes, type WireMessage, writeMessage } from './codec.ts'
import { receiverOf } from './request-id.ts'
import { maxWireBytes, type Wire, type WiredTopic } from './wire.ts'

export function trustGraphCodec(codec: Codec, wire: Wire): Codec {
  return {
    ...codec,
    encode(header, typed, sealing) {
      const wired = wire.find(sealing.topic)
      return wired ? encode(wired, { header, typed, sealing }) : codec.encode(header, typed, sealing)
    },
    decode(bytes, headers, receipt) {
      const wired = wire.find(receipt?.topic ?? '')
      if (!wired) return codec.decode(bytes, headers)
      checkSize(bytes, wired)
      return read(wired, { body: bytes, headers }, receipt!)
    },
    answerable(headers, receipt) {
      const wired = wire.find(receipt.topic ?? '')
      if (!wired || !wire.repliesTo(receipt.topic!)) return undefined
      try {
        return read(wired, { body: Buffer.from('{}'), headers }, receipt)
      } catch {
        return undefined
      }
    },
  }

  function read(wired: WiredTopic, bytes: WireBytes, receipt: Partial<Receipt>): Message {
    const { type, identifier: topic, workspace, flow } = wired
    const message = readMessage(type, bytes, { topic, workspace, flow, time: receipt.timestamp ?? 0 })
    if (!wire.repliesTo(receipt.topic!)) return message
    return { ...message, replyTo: wire.replyTopic(wired, receiverOf(bytes.headers['id'] ?? '')) }
  }

  function encode(wired: WiredTopic, { header, typed, sealing }: Unsealed) {
    const id = sealing.id(digestOf(typed, sealing.salt))
    const whole: Header = {
      id,
      version: '',
      versionTime: 0,
      ...header,
      ...(sealing.startsCorrelation && { correlationId: id }),
    }
    const receiver = wired.receiver ?? wire.find(whole.replyTo ?? '')?.receiver
    const { body, headers } = writeMessage({ ...whole, ...typed } as WireMessage, receiver)
    checkSize(body, wired)
    return { topic: sealing.topic, key: sealing.key ?? id, value: body, headers }
  }
}

interface Unsealed {
  readonly header: Omit<HeaderInit, 'id'>
  readonly typed: TypedPayload
  readonly sealing: Sealing
}

/** Fields that are no part of an id: they differ when a cause is handled again, or a program of another version has none. */
const apart = new Set(['seq', 'usage', 'grounding', 'groundings', 'repeat', 'repeated'])

/** Over the salt and the payload without the fields that differ when a cause is handled again. */
function digestOf({ type, payload }: TypedPayload, salt: string): string {
  const same = JSON.stringify([type, Object.entries(payload).filter(([name]) => !apart.has(name))])
  return createHash('sha256').update(salt).update(same).digest('hex').slice(0, 32)
}

function checkSize({ byteLength }: Uint8Array, { name }: WiredTopic): void {
  if (byteLength > maxWireBytes)
    throw new GraphmillError(
      'message_too_large',
      `A message of ${byteLength} bytes is over the ${maxWireBytes} that ${name} may take.`,
    )
}
