import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { createMemoryCluster } from '../../src/broker/memory.ts'
import { createSchemasTopic } from '../../src/flow/schemas-topic.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Header, TypedPayload } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { createSchemaRegistry } from '../../src/messages/schema-registry.ts'
import type { ComposedSchema } from '../../src/messages/wire.ts'

const signal = new AbortController().signal
const header: Omit<Header, 'id'> = {
  source: 's',
  time: 1,
  workspace: 'w',
  flow: 'f',
  collection: 'c',
  documentId: '',
  chunkId: '',
  correlationId: '',
  causationId: '',
  replyTo: null,
  deadline: null,
  traceparent: null,
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
afterEach(() => close())

describe('a reader of version N and a writer of version N+1', () => {
  test('understand each other through the schemas topic', async () => {
    const broker = createMemoryCluster().connect()
    const newer = createCodec(nextSchemas)
    await createSchemasTopic(broker, newer, 'gm').announce(signal)
    const sent = newer.encode(header, chunk, sealing)
    const reader = createSchemasTopic(broker, createCodec(schemas), 'gm')
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

  test('are told apart from bytes of a schema that nobody has published', async () => {
    const broker = createMemoryCluster().connect()
    const topic = createSchemasTopic(broker, createCodec(schemas), 'gm')
    await topic.announce(signal)
    const sent = createCodec(nextSchemas).encode(header, chunk, sealing)
    await expect(topic.decode(sent, signal)).rejects.toMatchObject({ code: 'schema_unknown' })
  })
})

describe('with a schema registry', () => {
  /** A registry with Confluent's API, as far as writers and readers use it. */
  async function startRegistry() {
    const ids = new Map<string, number>()
    const server = createServer(async (request, response) => {
      const answer = (status: number, body: object) => response.writeHead(status).end(JSON.stringify(body))
      if (request.headers.authorization !== `Basic ${Buffer.from('me:secret').toString('base64')}`)
        return answer(401, { message: 'who?' })
      if (request.method === 'POST') {
        let text = ''
        for await (const piece of request) text += piece
        const { schema } = JSON.parse(text) as { schema: string }
        ids.set(schema, ids.get(schema) ?? ids.size + 7)
        return answer(200, { id: ids.get(schema) })
      }
      const found = [...ids].find(([, id]) => request.url === `/schemas/ids/${id}`)
      return found ? answer(200, { schema: found[0] }) : answer(404, { message: 'none' })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    close = () => new Promise<void>((resolve) => server.close(() => resolve()))
    return `127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  test('messages are written in its format and read by whoever knows the registry', async () => {
    const address = await startRegistry()
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

  test('a refusal is the operator\u2019s to mend, and a registry that is away is waited for', async () => {
    const address = await startRegistry()
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
