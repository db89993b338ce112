import { execFileSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { maxMessageBytes } from '../../src/broker/broker.ts'
import { GraphmillError } from '../../src/errors.ts'
import { avroType } from '../../src/messages/avro-types.ts'
import { createCodec } from '../../src/messages/codec.ts'
import type { Header, TypedPayload } from '../../src/messages/envelope.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { type ComposedSchema, confluentPrefix, fingerprintOf, rabin } from '../../src/messages/wire.ts'

const schemas = loadSchemas()
const codec = createCodec(schemas)

const header: Omit<Header, 'id'> = {
  source: 'chunk-text',
  time: 1_700_000_000_000,
  workspace: 'default',
  flow: 'default',
  collection: 'default',
  documentId: 'urn:d',
  chunkId: 'urn:d/0/1',
  correlationId: 'c',
  causationId: 'z',
  replyTo: null,
  deadline: null,
  traceparent: null,
  version: 'v',
  versionTime: 1_700_000_000_001,
}
const chunk: TypedPayload = {
  type: 'Chunk',
  payload: { text: 'Ada wrote “notes” 🦉', part: 0, index: 1, offset: 7, length: 19 },
}
const reply: TypedPayload = {
  type: 'PromptResponse',
  payload: {
    run: { id: 'r', startedAt: 5 },
    seq: 3,
    object: '[{"entity":"a","definition":"b"}]',
    accepted: 1,
    usage: { promptTokens: 1, completionTokens: null },
    context: { unit: 'x', part: '0' },
  },
}
const triples: TypedPayload = {
  type: 'Triples',
  payload: {
    triples: [
      {
        s: { type: 'i', iri: 'urn:a' },
        p: { type: 'i', iri: 'urn:b' },
        o: {
          type: 't',
          triple: { s: { type: 'b', id: 'x' }, p: { type: 'i', iri: 'urn:p' }, o: { type: 'l', value: 'v' } },
        },
      },
    ],
  },
}

const encode = (typed: TypedPayload, overrides: Partial<Header> = {}) =>
  codec.encode({ ...header, ...overrides }, typed, { topic: 't', salt: 's', id: (digest) => digest })
const digestOf = (typed: TypedPayload, salt = 's') => {
  let seen = ''
  codec.encode(header, typed, { topic: 't', salt, id: (digest) => (seen = digest) })
  return seen
}
const codeOf = (act: () => unknown) => {
  try {
    act()
  } catch (error) {
    if (error instanceof GraphmillError) return error.code
    throw error
  }
  return 'none'
}

describe('the wire', () => {
  test('the fingerprint is CRC-64-AVRO of the parsing canonical form', () => {
    // From the Avro specification's reference implementation: the fingerprint of "int".
    expect(rabin(Buffer.from('"int"')).toString(16)).toBe('7275d51a3f395c8f')
    expect(rabin(Buffer.from('"null"')).toString(16)).toBe('63dd24e7cc258f8a')
  })

  test('a message begins with C3 01 and the fingerprint of its schema', () => {
    const { value } = encode(chunk)
    const fingerprint = fingerprintOf(avroType(schemas.current.get('Chunk')))
    expect(Buffer.from(value.subarray(0, 10)).toString('hex')).toBe(`c301${fingerprint}`)
  })

  test('every message is decoded as it was encoded', () => {
    for (const typed of [chunk, reply, triples]) {
      const { value, headers } = encode(typed)
      const message = codec.decode(value, headers)
      expect(message).toMatchObject({ ...header, type: typed.type })
      expect(message.payload).toMatchObject(typed.payload)
    }
  })

  test('a message in the format of a schema registry is read too', () => {
    const other = createCodec(schemas)
    const { value, headers } = encode(chunk)
    const framed = Buffer.concat([confluentPrefix(42), value.subarray(10)])
    const { 'content-crc32': _, ...rest } = headers
    expect(codeOf(() => other.decode(framed, rest))).toBe('schema_unknown')
    other.learn(schemas.current.get('Chunk') as ComposedSchema, 42)
    expect(other.decode(framed, rest).payload).toMatchObject(chunk.payload)
    other.writeWithRegistry('Chunk', 42)
    const written = other.encode(header, chunk, { topic: 't', salt: 's', id: (digest) => digest })
    expect([...written.value.subarray(0, 5)]).toEqual([0, 0, 0, 0, 42])
  })
})

describe('bad bytes', () => {
  test('changed bytes are never a wrong message: with the checksum they are refused, without it they decode to what they hold', () => {
    const samples = [chunk, reply, triples].map((typed) => encode(typed))
    const mutation = fc.record({
      sample: fc.constantFrom(...samples),
      edits: fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255) }), { minLength: 1, maxLength: 4 }),
      cut: fc.option(fc.nat()),
      tail: fc.uint8Array({ maxLength: 4 }),
    })
    fc.assert(
      fc.property(mutation, ({ sample, edits, cut, tail }) => {
        const bytes = Buffer.from(sample.value)
        for (const { at, byte } of edits) bytes[at % bytes.length] = byte
        const mutated = Buffer.concat([cut === null ? bytes : bytes.subarray(0, cut % bytes.length), tail])
        if (mutated.equals(sample.value)) return
        expect(['bytes_undecodable', 'schema_unknown']).toContain(
          codeOf(() => codec.decode(mutated, sample.headers)),
        )
        const { 'content-crc32': _, ...foreign } = sample.headers
        let message: { readonly type: string } | undefined
        try {
          message = codec.decode(mutated, foreign)
        } catch (error) {
          expect(error).toBeInstanceOf(GraphmillError)
          return
        }
        // What decodes without a checksum is a whole message of the schema that the bytes name, up to the last byte.
        const type = avroType(schemas.current.get(message.type as never))
        expect(type.isValid(message)).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })

  test('counts that claim more than there is fail at once, without using memory', () => {
    const { value, headers } = encode(triples)
    const { 'content-crc32': _, ...foreign } = headers
    const bytes = Buffer.from(value)
    // The array's count, a zigzag varint, is the byte before the first term's type.
    const at = bytes.indexOf(Buffer.from([2, 2, 0x69]))
    const huge = Buffer.concat([
      bytes.subarray(0, at),
      Buffer.from([0xfe, 0xff, 0xff, 0xff, 0xff, 0x0f]),
      bytes.subarray(at + 1),
    ])
    expect(codeOf(() => codec.decode(huge, foreign))).toBe('bytes_undecodable')
  })

  describe('bounds', () => {
    const varint = (value: bigint): Buffer => {
      const bytes: number[] = []
      let rest = BigInt.asUintN(64, (value << 1n) ^ (value >> 63n))
      for (; rest > 127n; rest >>= 7n) bytes.push(Number(rest & 127n) | 128)
      return Buffer.from([...bytes, Number(rest)])
    }
    const numbers = (...values: (bigint | number)[]) =>
      Buffer.concat(values.map((value) => varint(BigInt(value))))
    /** A message with `blocks` in the place of the array or map that `typed` ends with, which is empty. */
    const withBlocks = (typed: TypedPayload, ...blocks: Buffer[]) =>
      Buffer.concat([encode(typed).value.subarray(0, -1), ...blocks])
    const noTriples: TypedPayload = { type: 'Triples', payload: { triples: [] } }
    const term = Buffer.from([2, 0x69, 0, 0, 0, 0, 0, 0])
    const triple = Buffer.concat([term, term, term, Buffer.from([0])])
    const refused = (bytes: Buffer, because: RegExp, reader = codec) => {
      const started = process.cpuUsage()
      expect(codeOf(() => reader.decode(bytes, {}))).toBe('bytes_undecodable')
      expect(() => reader.decode(bytes, {})).toThrow(because)
      expect(process.cpuUsage(started).user / 1000).toBeLessThan(1000)
    }

    test('every block of an array is checked, not only the first', () => {
      refused(withBlocks(noTriples, numbers(1), triple, numbers(2n ** 50n)), /beyond the end/)
      refused(withBlocks(noTriples, numbers(1), triple, numbers(2 ** 22), Buffer.alloc(50)), /beyond the end/)
      refused(withBlocks(noTriples, numbers(-(2n ** 50n), 4)), /beyond the end/)
      refused(withBlocks(noTriples, Buffer.alloc(300, 0xff)), /beyond the end/)
    })

    test('the size of a block must be what the block takes', () => {
      const sized = (size: number) => withBlocks(noTriples, numbers(-1, size), triple, numbers(0))
      expect(codec.decode(sized(triple.length), {}).payload).toMatchObject({
        triples: [{ s: { type: 'i' } }],
      })
      refused(sized(triple.length - 1), /another size/)
      refused(sized(-5), /impossible size/)
    })

    test('items that end beyond the message stop the reading', () => {
      refused(withBlocks(noTriples, numbers(triple.length), triple), /cut off within a block/)
    })

    test('a message has a budget of values, whatever its bytes claim', () => {
      const spoken = structuredClone(schemas.current.get('Triples')) as ComposedSchema
      // A later writer's field, which this reader skips: each inner array may be as long as there are bytes left.
      const grid = { type: 'array', items: { type: 'array', items: 'null' } }
      const writer = { ...spoken, fields: [{ name: 'grid', type: grid }, ...spoken.fields] }
      const reader = createCodec(schemas)
      const fingerprint = reader.learn(writer)
      const inner = Buffer.concat([numbers(300_000, 0)])
      const rows = Buffer.concat(Array.from({ length: 100_000 }, () => inner))
      const bytes = Buffer.concat([Buffer.from(`c301${fingerprint}`, 'hex'), numbers(100_000), rows])
      refused(bytes, /more than 200000 values/, reader)
    })

    test('skipped bytes cannot lead back', () => {
      const spoken = schemas.current.get('Triples')!
      const writer = {
        ...spoken,
        fields: [{ name: 'extra', type: { type: 'array', items: 'string' } }, ...spoken.fields],
      }
      const reader = createCodec(schemas)
      const prefix = Buffer.from(`c301${reader.learn(writer)}`, 'hex')
      // A block of -4 bytes leads back to its own count.
      refused(Buffer.concat([prefix, numbers(-1, -2), Buffer.alloc(50)]), /impossible size/, reader)
    })

    test('an int has 32 bits', () => {
      const { value } = encode({
        type: 'Chunk',
        payload: { text: 'x', part: 0, index: 1, offset: 7, length: 1, page: 3 },
      })
      // Behind the page stand two empty fields.
      refused(Buffer.concat([value.subarray(0, -3), numbers(2 ** 40)]), /32 bits/)
    })

    test('quoted triples may be nested 31 deep, and no deeper', () => {
      const nested = (depth: number): object => {
        const o = depth === 0 ? { type: 'i', iri: 'urn:c' } : { type: 't', triple: nested(depth - 1) }
        return { s: { type: 'i', iri: 'urn:a' }, p: { type: 'i', iri: 'urn:b' }, o }
      }
      const of = (depth: number) =>
        Buffer.from(encode({ type: 'Triples', payload: { triples: [nested(depth)] } } as never).value)
      expect(codec.decode(of(30), {}).type).toBe('Triples')
      refused(of(1000), /records more than 64 deep/)
    })

    test('a key with a special meaning in JavaScript is an ordinary entry', () => {
      const terms = JSON.parse('{"__proto__": "1", "constructor": "2"}')
      const { value, headers } = encode({ type: 'PromptRequest', payload: { promptId: 'p', terms } })
      const { payload } = codec.decode(value, headers) as { payload: { terms: object } }
      expect(Object.entries(payload.terms)).toEqual(Object.entries(terms))
    })

    test('a message over 700 KiB is not decoded', () => {
      const bytes = Buffer.alloc(maxMessageBytes + 1)
      expect(codeOf(() => codec.decode(bytes, {}))).toBe('message_too_large')
    })
  })

  describe('foreign schemas', () => {
    const current = schemas.current.get('Chunk')!
    const refused = (schema: unknown) => {
      const started = process.cpuUsage()
      expect(codeOf(() => createCodec(schemas).learn(schema))).toBe('bytes_undecodable')
      expect(process.cpuUsage(started).user / 1000).toBeLessThan(1000)
    }
    const withField = (type: unknown) => ({ ...current, fields: [{ name: 'x', type }, ...current.fields] })

    test('that are huge, deep or invalid are refused before they are compiled', () => {
      const empty = (_: unknown, index: number) => ({ type: 'record', name: `R${index}`, fields: [] })
      refused(withField(Array.from({ length: 20_000 }, empty)))
      let deep: unknown = 'string'
      for (let depth = 0; depth < 20_000; depth++) deep = { type: 'array', items: deep }
      refused(withField(deep))
      refused({ ...current, fields: [{ name: 'f'.repeat(900_000), type: 'string' }] })
      for (const none of [null, 7, 'string', [], {}, { type: 'constructor' }, { ...current, fields: 7 }])
        refused(none)
    })

    test('do not replace known ones', () => {
      const reader = createCodec(schemas)
      const { value } = encode(chunk)
      const framed = Buffer.concat([confluentPrefix(42), value.subarray(10)])
      expect(reader.learn(current, 42)).toBe(Buffer.from(value).toString('hex', 2, 10))
      reader.learn(schemas.current.get('Triples'), 42)
      expect(reader.decode(framed, {}).payload).toMatchObject(chunk.payload)
    })
  })

  test('foreign bytes are undecodable and an unknown fingerprint is named', () => {
    for (const bytes of ['', 'hello', '{"json":true}', '\u0000'])
      expect(codeOf(() => codec.decode(Buffer.from(bytes), {}))).toBe('bytes_undecodable')
    expect(codeOf(() => codec.decode(Buffer.from('c3010102030405060708aa', 'hex'), {}))).toBe(
      'schema_unknown',
    )
  })

  test('a payload that does not fit its schema is message_invalid, one that is too large message_too_large', () => {
    expect(codeOf(() => encode({ type: 'Chunk', payload: { text: 7 } } as never))).toBe('message_invalid')
    const text = 'x'.repeat(maxMessageBytes)
    expect(codeOf(() => encode({ type: 'Chunk', payload: { text } }))).toBe('message_too_large')
    const { value } = encode({ type: 'Chunk', payload: { text: 'x'.repeat(maxMessageBytes - 400) } })
    expect(value.length).toBeLessThanOrEqual(maxMessageBytes)
  })
})

describe('ids', () => {
  test('name content: equal payloads have one digest whatever the order of their maps', () => {
    const request = (terms: Record<string, string>): TypedPayload => ({
      type: 'PromptRequest',
      payload: { promptId: 'p', terms },
    })
    expect(digestOf(request({ a: '1', b: '2' }))).toBe(digestOf(request({ b: '2', a: '1' })))
    expect(digestOf(request({ a: '1', b: '2' }))).not.toBe(digestOf(request({ a: '1', b: '3' })))
    expect(digestOf(request({ a: '1' }), 'other cause')).not.toBe(digestOf(request({ a: '1' })))
  })

  test('leave seq and usage out, and nothing else', () => {
    const part = (more: object): TypedPayload => ({
      type: 'PromptResponse',
      payload: { run: { id: 'r', startedAt: 1 }, text: 'x', ...more },
    })
    expect(digestOf(part({ seq: 1, usage: { promptTokens: 4 } }))).toBe(digestOf(part({ seq: 2 })))
    expect(digestOf(part({ seq: 1, text: 'y' }))).not.toBe(digestOf(part({ seq: 1 })))
  })

  test('leave out where a fact stands in the text, and are those of versions that did not look', () => {
    const span = { field: 'entity', match: 'exact', offset: 7, length: 5 }
    const definitions = (grounding: object | null): TypedPayload => ({
      type: 'Definitions',
      payload: {
        run: { id: 'r', startedAt: 1 },
        facts: [{ entity: 'E', definition: 'D', ...(grounding && { grounding: grounding as never }) }],
      },
    })
    const known = 'c889db2ec94c43d498f3fb733e5bb969'
    expect(digestOf(definitions(null))).toBe(known)
    expect(digestOf(definitions({ status: 'exact', spans: [span] }))).toBe(known)
    const chunk = (more: object): TypedPayload => ({ type: 'Chunk', payload: { text: 'x', ...more } })
    expect(digestOf(chunk({ start: 3, pages: [1, 2] }))).toBe(digestOf(chunk({})))
    expect(digestOf(chunk({ offset: 3 }))).not.toBe(digestOf(chunk({})))
  })

  test('different content never shares one', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.string()), { minLength: 2, maxLength: 20 }), (pairs) => {
        const seen = new Map<string, string>()
        for (const [salt, text] of pairs) {
          const digest = digestOf(
            { type: 'Chunk', payload: { text: text.toWellFormed() } },
            `${salt.toWellFormed().replaceAll('\n', '')}\n`,
          )
          const content = JSON.stringify([salt.toWellFormed().replaceAll('\n', ''), text.toWellFormed()])
          expect(seen.get(digest) ?? content).toBe(content)
          seen.set(digest, content)
        }
      }),
    )
  })
})

describe('headers', () => {
  test('repeat the fields that tools route by, without the empty ones', () => {
    const { headers } = encode(chunk, { replyTo: 'gm.response.prompt.x.default.default', documentId: '' })
    expect(headers).toMatchObject({
      type: 'Chunk',
      chunkId: 'urn:d/0/1',
      correlationId: 'c',
      workspace: 'default',
      flow: 'default',
      replyTo: 'gm.response.prompt.x.default.default',
    })
    expect(headers['id']).toMatch(/^[0-9a-f]{32}$/)
    expect('documentId' in headers).toBe(false)
    expect('traceparent' in headers).toBe(false)
  })
})

describe('schemas', () => {
  test('the generated types and the archive are not stale', () => {
    expect(() =>
      execFileSync(process.execPath, ['scripts/schemas.ts', '--check'], { stdio: 'pipe' }),
    ).not.toThrow()
  })

  test('everything in the archive can still be read', () => {
    for (const schema of schemas.byFingerprint.values()) {
      const reader = schemas.current.get(schema.name.replace('Envelope', '') as never)
      expect(() => avroType(reader).createResolver(avroType(schema)), schema.name).not.toThrow()
    }
  })

  test('a reader reads what a writer of the next version writes, once it knows the schema', () => {
    const next = structuredClone(schemas.current.get('Chunk')) as {
      fields: { name: string; type: { fields: object[] } }[]
    } & ComposedSchema
    next.fields.at(-1)!.type.fields.unshift({ name: 'language', type: 'string', default: '' })
    const newer = createCodec({ ...schemas, current: new Map([...schemas.current, ['Chunk', next]]) })
    const sent = newer.encode(
      header,
      { type: 'Chunk', payload: { ...chunk.payload, language: 'en' } } as never,
      { topic: 't', salt: 's', id: (d) => d },
    )
    const reader = createCodec(schemas)
    expect(codeOf(() => reader.decode(sent.value, sent.headers))).toBe('schema_unknown')
    reader.learn(next)
    expect(reader.decode(sent.value, sent.headers).payload).toMatchObject(chunk.payload)
  })
})
