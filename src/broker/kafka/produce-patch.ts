// Puts produce-request.ts into kafkajs 2.2.4. quirks.ts calls it with the other patches, and says what holds for all of them.
import { encodeProduce, type ProduceRequest } from './produce-request.ts'

/** What kafkajs takes for encoded bytes. With `room`, so many bytes before them are free. */
interface EncodedBytes {
  readonly buf: Buffer
  readonly buffer: Buffer
  readonly room?: number
}

interface Encoder extends EncodedBytes {
  buf: Buffer
  offset: number
  room?: number
  writeEncoder(value: EncodedBytes): Encoder
}

interface EncodableRequest {
  encode(): Promise<EncodedBytes | undefined>
}

/** For what stands before every request: its length, its kind, and the id of the client. */
const headRoom = 64

function writeRequest(request: ProduceRequest, now: number): EncodedBytes | undefined {
  const bytes = encodeProduce(request, now, headRoom)
  return bytes && { buf: bytes, buffer: bytes, room: headRoom }
}

/** Two batches. kafkajs gets a timestamp, since it reads the clock for each of them. */
const sampleRequest = (timestamp?: string): ProduceRequest => {
  const headers = { id: 'é', documentId: 'd'.repeat(64) }
  const messages = ['', 'v'].map((value) => ({ key: 'k', value: Buffer.from(value), headers, timestamp }))
  const partitions = [0, 7].map((partition) => ({ partition, messages }))
  return { acks: -1, timeout: 1, topicData: [{ topic: 't', partitions }] }
}

/**
 * Fault: writing a produce request takes more CPU than anything else that is done with a message.
 * Cause: protocol/encoder.js begins with 512 zeroed bytes, and requests/produce/v3/request.js, recordBatch/v0/index.js,
 * recordBatch/record/v0/index.js and request.js use an encoder for each header, record, batch, partition, topic and request, and
 * copy everything from one into the next. produce-request.ts writes what graphmill sends instead, and leaves room for what
 * request.js puts before it. The first request loads versions 4 to 7, which find the patched version 3.
 * Test: quirks.test.ts, "a produce request is written by our own code, and is not copied".
 */
export function patchRequest(require: NodeJS.Require): void {
  const { prototype }: { prototype: Encoder } = require('kafkajs/src/protocol/encoder')
  const { writeEncoder } = prototype
  prototype.writeEncoder = function (value) {
    const { offset } = this
    if (value?.room === undefined || value.room < offset) return writeEncoder.call(this, value)
    const { buffer, byteOffset, length } = value.buffer
    const whole = Buffer.from(buffer, byteOffset - offset, offset + length)
    this.buf.copy(whole, 0, 0, offset)
    return Object.assign(this, { buf: whole, offset: whole.length, room: value.room - offset })
  }
  const path = require.resolve('kafkajs/src/protocol/requests/produce/v3/request')
  const original: (request: ProduceRequest) => EncodableRequest = require(path)
  const withHead = (request: EncodableRequest): Promise<EncodedBytes> =>
    require('kafkajs/src/protocol/request')({ correlationId: 1, clientId: 'c', request })
  const compare = async (): Promise<boolean> => {
    const request = original(sampleRequest('1'))
    const theirs = await withHead(request)
    const ours = await withHead({ ...request, encode: async () => writeRequest(sampleRequest(), 1) })
    return ours.buffer.equals(theirs.buffer)
  }
  const agree = compare().catch(() => false)
  require.cache[path]!.exports = (produced: ProduceRequest): EncodableRequest => {
    const request = original(produced)
    const encode = async () => ((await agree) && writeRequest(produced, Date.now())) || request.encode()
    return { ...request, encode }
  }
}
