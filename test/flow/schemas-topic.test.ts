import { afterEach, describe, expect, test, vi } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory/memory.ts'
import { createSchemasTopic } from '../../src/flow/schemas-topic.ts'
import { createCodec } from '../../src/messages/codec.ts'
import { emptyHeader, type Header, type Message, type TypedPayload } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { createSchemaRegistry } from '../../src/messages/schema-registry.ts'
import type { ComposedSchema } from '../../src/messages/wire.ts'
import { startRegistry } from '../support/schema-registry.ts'

const signal = new AbortController().signal
const header: Omit<Header, 'id'> = {
  ...emptyHeader,
  source: 's',
  time: 1,
  workspace: 'w',
  flow: 'f',
  collection: 'c',
}
const chunk: TypedPayload = { type: 'Chunk', payload: { text: 'mills' } }
const sealing = { topic: 't', salt: '', id: (digest: string) => digest }

/** This build, and the next one: its Chunk has one more field. */
const schemas = loadSchemas()
const next = structuredClone(schemas.current.get('Chunk')) as ComposedSchema & {
  fields: { type: { fields: object[] } }[]
}
const payload = next.fields.at(-1)!.type as { fields: object[] }
payload.fields.push({ name: 'language', type: 'string', default: '' })
const nextSchemas = { ...schemas, current: new Map([...schemas.current, ['Chunk' as const, next]]) }

let close = async () => {}
afterEach(async () => {
  vi.useRealTimers()
  await close()
})

describe('a reader of version N and a writer of version N+1', () => {
  test('understand each other through the schemas topic', async () => {
    const broker = createMemoryCluster().connect()
    const newer = createCodec(nextSchemas)
    await createSchemasTopic(broker, newer, 'gm').announce(signal)
    const sent = newer.encode(header, chunk, sealing)
    const reader = createSchemasTopic(broker, createCodec(schemas), 'gm')
    expect((await reader.decode(sent, signal)).payload).toMatchObject({ text: 'mills' })
  })

  /** A reader of this build that has announced, and what a writer of the next one will do. */
  async function begin() {
    const broker = createMemoryCluster().connect()
    const reader = createSchemasTopic(broker, createCodec(schemas), 'gm')
    await reader.announce(signal)
    const newer = createCodec(nextSchemas)
    const announce = () => createSchemasTopic(broker, newer, 'gm').announce(signal)
    return { broker, reader, announce, sent: newer.encode(header, chunk, sealing) }
  }

  test('understand each other when the reader announced just before the writer', async () => {
    const { reader, announce, sent } = await begin()
    await announce()
    expect((await reader.decode(sent, signal)).payload).toMatchObject({ text: 'mills' })
  })

  test('understand each other when the writer announced while the reader was looking', async () => {
    const { broker, reader, announce, sent } = await begin()
    const { read } = broker
    const looked = Promise.withResolvers<void>()
    broker.read = async function* (range, until) {
      broker.read = read // of which `announce` itself makes use
      looked.resolve()
      yield* read(range, until)
      await announce()
    }
    const foreign = Buffer.concat([Buffer.from('c3010102030405060708', 'hex'), sent.value.subarray(10)])
    const unknown = expect(reader.decode({ value: foreign, headers: {} }, signal)).rejects.toMatchObject({
      code: 'schema_unknown',
    })
    await looked.promise
    expect((await reader.decode(sent, signal)).payload).toMatchObject({ text: 'mills' })
    await unknown
  })

  test('understand each other though the first of two messages was taken from its handler meanwhile', async () => {
    const { reader, announce, sent } = await begin()
    await announce()
    const lost = new AbortController()
    const first = expect(reader.decode(sent, lost.signal)).rejects.toThrow('another member has it')
    const second = reader.decode(sent, signal)
    lost.abort(new Error('another member has it'))
    await first
    expect((await second).payload).toMatchObject({ text: 'mills' })
  })

  test('understand each other after the clock was set back', async () => {
    const { reader, announce, sent } = await begin()
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 3_600_000 })
    await announce()
    await new Promise((resolve) => setTimeout(resolve, 1100)) // the topic may be looked at again
    expect((await reader.decode(sent, signal)).payload).toMatchObject({ text: 'mills' })
  })

  test('understand each other when something else had replaced the schema', async () => {
    const { broker, reader, announce, sent } = await begin()
    for (const { fingerprint: key } of createCodec(nextSchemas).written)
      await broker.publish({ topic: 'gm.notify.schemas', key, value: new Uint8Array(), headers: {} })
    await announce()
    expect((await reader.decode(sent, signal)).payload).toMatchObject({ text: 'mills' })
  })

  test('publish each schema once', async () => {
    const broker = createMemoryCluster().connect()
    for (let time = 0; time < 2; time++)
      await createSchemasTopic(broker, createCodec(schemas), 'gm').announce(signal)
    const keys: string[] = []
    for await (const { key } of broker.read(
      { topic: 'gm.notify.schemas', from: 'earliest', until: 'end' },
      signal,
    ))
      keys.push(key)
    expect(keys).toHaveLength(new Set(keys).size)
    expect(keys).toHaveLength(schemas.current.size)
  })

  test('look once for a schema that was not announced, and again after a while', async () => {
    const { broker, reader, announce, sent } = await begin()
    const begun = performance.now()
    for (let time = 0; time < 20; time++)
      await expect(reader.decode(sent, signal)).rejects.toMatchObject({ code: 'schema_unknown' })
    expect(performance.now() - begun).toBeLessThan(10_000)
    await announce()
    await new Promise((resolve) => setTimeout(resolve, 1100))
    // Those that ask then, also while another looks.
    const { read } = broker
    let other: Promise<Message> | undefined
    broker.read = async function* (range, until) {
      other ??= reader.decode(sent, signal)
      other.catch(() => undefined)
      yield* read(range, until)
    }
    expect((await reader.decode(sent, signal)).type).toBe('Chunk')
    expect((await other!).type).toBe('Chunk')
  })

  test('are distinguished from bytes of a schema that was never published', async () => {
    const broker = createMemoryCluster().connect()
    const topic = createSchemasTopic(broker, createCodec(schemas), 'gm')
    await topic.announce(signal)
    const sent = createCodec(nextSchemas).encode(header, chunk, sealing)
    await expect(topic.decode(sent, signal)).rejects.toMatchObject({ code: 'schema_unknown' })
  })
})

describe('with a schema registry', () => {
  const startWithSecret = async () => {
    const { address, close: stop } = await startRegistry('me:secret')
    close = stop
    return address
  }

  test('messages are written in its format and read by every reader with the registry', async () => {
    const address = await startWithSecret()
    const registry = createSchemaRegistry(`http://me:secret@${address}`)
    const broker = createMemoryCluster().connect()
    const newer = createCodec(nextSchemas)
    await createSchemasTopic(broker, newer, 'gm', registry).announce(signal)
    const sent = newer.encode(header, chunk, sealing)
    expect(sent.value[0]).toBe(0)
    expect(
      (await createSchemasTopic(broker, createCodec(schemas), 'gm', registry).decode(sent, signal)).payload,
    ).toMatchObject({ text: 'mills' })
    await expect(
      createSchemasTopic(broker, createCodec(schemas), 'gm').decode(sent, signal),
    ).rejects.toMatchObject({ code: 'schema_unknown' })
  })

  test('a refusal is a fault for the operator, and an unavailable registry is waited for', async () => {
    const address = await startWithSecret()
    const register = (url: string) =>
      createSchemaRegistry(url).register(schemas.current.get('Chunk')!, signal)
    await expect(register(`http://me:wrong@${address}`)).rejects.toMatchObject({ code: 'registry_refused' })
    await close()
    close = async () => {}
    await expect(register(`http://me:secret@${address}`)).rejects.toMatchObject({
      code: 'registry_unavailable',
    })
  })

  test('an address that is none is refused at once', () => {
    for (const url of ['registry:8081', 'ftp://registry', ''])
      expect(() => createSchemaRegistry(url)).toThrow(
        expect.objectContaining({ code: 'configuration_invalid' }),
      )
  })
})
