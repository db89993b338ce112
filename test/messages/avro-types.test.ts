import avro from 'avsc'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { avroType } from '../../src/messages/avro-types.ts'
import { loadSchemas } from '../../src/messages/registry.ts'
import { iri, quoted, type Triple, triple } from '../../src/rdf/term.ts'
import { hostileIri, hostileTriples } from '../rdf/quads.ts'

const schema = loadSchemas().current.get('Triples')!.fields.at(-1)!.type
const general = avro.Type.forSchema(schema as avro.Schema)

/** Messages that have terms of earlier ones again, and quoted triples. */
const messages = fc.array(
  hostileTriples.map((some) => {
    const about = some.map((each, at) =>
      triple(iri(`urn:example:about:${at % 3}`), iri('urn:p'), quoted(each), 'urn:g'),
    )
    return { triples: [...some, ...about, ...some.slice(0, 2)] }
  }),
  { maxLength: 5 },
)

describe('triples', () => {
  test("are written as avsc's own types write them", () => {
    const type = avroType(schema)
    const room = Buffer.alloc(1 << 20)
    fc.assert(
      fc.property(messages, (each) => {
        for (const message of each) {
          const bytes = general.toBuffer(message)
          expect(type.toBuffer(message)).toEqual(bytes)
          expect(room.subarray(0, type.encode(message, room, 0))).toEqual(bytes)
        }
      }),
    )
  })

  test("are read as avsc's own types read them, whatever was read before", () => {
    const type = avroType(schema)
    fc.assert(
      fc.property(messages, (each) => {
        for (const message of each) {
          const bytes = general.toBuffer(message)
          expect(plain(type.fromBuffer(bytes))).toEqual(plain(general.fromBuffer(bytes)))
        }
      }),
    )
  })

  test('that are damaged are read, or refused, as by a reader that has read nothing before', () => {
    const type = avroType(schema)
    const damage = fc.record({
      triples: hostileTriples.filter(({ length }) => length > 0),
      edits: fc.array(fc.record({ at: fc.nat(), byte: fc.nat(255) }), { minLength: 1, maxLength: 3 }),
      cut: fc.option(fc.nat()),
    })
    fc.assert(
      fc.property(damage, ({ triples, edits, cut }) => {
        const bytes = general.toBuffer({ triples })
        type.fromBuffer(bytes)
        for (const { at, byte } of edits) bytes[at % bytes.length] = byte
        const damaged = cut === null ? bytes : bytes.subarray(0, cut % bytes.length)
        expect(outcome(type, damaged)).toEqual(outcome(avroType(schema), damaged))
      }),
      { numRuns: 500 },
    )
  })

  test('share the terms that are IRIs, so that a message has each about once', () => {
    const type = avroType(schema)
    const one = triple(iri('urn:example:s'), iri('urn:example:p'), iri('urn:example:ö'))
    const { triples } = type.fromBuffer(general.toBuffer({ triples: [one, one] })) as { triples: Triple[] }
    expect(triples[1]!.s).toBe(triples[0]!.s)
    expect(triples[1]!.p).toBe(triples[0]!.p)
    expect(plain(triples[1])).toEqual(one)
  })
})

test("strings of any length and text are written as avsc's own type writes them", () => {
  const [type, other] = ['string', ['null', 'string']].map((each) => [
    avroType(each),
    avro.Type.forSchema(each as avro.Schema),
  ]) as [avro.Type, avro.Type][]
  const texts = fc.oneof(
    hostileIri,
    fc.tuple(fc.constantFrom('a', 'é', '𝒳', '\ud800', '…'), fc.nat(9000)).map(([each, n]) => each.repeat(n)),
    fc.tuple(fc.nat(130), fc.constantFrom('', 'é', '𝒳', '\udfff')).map(([n, end]) => 'a'.repeat(n) + end),
  )
  const room = Buffer.alloc(1 << 17)
  fc.assert(
    fc.property(texts, fc.nat(100), (text, missing) => {
      for (const [own, general] of [type!, other!]) {
        const bytes = general.toBuffer(text)
        expect(own.toBuffer(text)).toEqual(bytes)
        expect(room.subarray(0, own.encode(text, room, 0))).toEqual(bytes)
        const short = room.subarray(0, Math.max(0, bytes.length - missing))
        expect(own.encode(text, short, 0)).toBe(general.encode(text, short, 0))
        expect(own.fromBuffer(bytes)).toBe(general.fromBuffer(bytes))
      }
    }),
  )
})

/** Without avsc's classes. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}

function outcome(type: avro.Type, bytes: Buffer): unknown {
  try {
    return plain(type.decode(bytes, 0))
  } catch (error) {
    return (error as Error).message
  }
}
