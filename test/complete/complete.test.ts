// `complete`: the type of the value follows the schema, for JSON Schema, TypeBox and Zod; the checks are the library's too.
import { Type } from '@sinclair/typebox'
import { describe, expect, expectTypeOf, it } from 'vitest'
import * as z from 'zod'
import { complete } from '../../src/complete/complete.ts'
import type { FromSchema } from '../../src/complete/from-schema.ts'
import type { JsonSchema } from '../../src/llm/llm.ts'
import { ProviderError } from '../../src/llm/provider-error.ts'
import { StructuredOutputInvalid } from '../../src/llm/structured-output/invalid-error.ts'
import { completion, frozen, hi, P, setup, weather } from './harness.ts'

const alice = { name: 'Alice', age: 30 }
const reply = completion(JSON.stringify(alice))

describe('the value', () => {
  it('has the type of a JSON Schema', async () => {
    await using test = await setup(reply)
    const { parsed } = await complete(test.provider, frozen({ messages: hi, responseSchema: P }))
    expectTypeOf(parsed).toEqualTypeOf<{ name: string; age: number }>()
    expect(parsed).toEqual(alice)
    // @ts-expect-error the schema has no such property
    expect(parsed.height).toBeUndefined()
  })

  it('has the type of a JSON Schema that is written in the call', async () => {
    await using test = await setup(completion('{"kind":"mill"}'))
    const { parsed } = await complete(test.provider, {
      messages: [{ role: 'user', content: 'x' }],
      responseSchema: {
        type: 'object',
        properties: { kind: { enum: ['mill', 'forge'] }, year: { type: ['integer', 'null'] } },
        required: ['kind'],
      },
    })
    expectTypeOf(parsed).toEqualTypeOf<{ kind: 'mill' | 'forge'; year?: number | null }>()
    expect(parsed.kind).toBe('mill')
  })

  it('has the type of a Zod type', async () => {
    await using test = await setup(reply)
    const person = z.object({ name: z.string(), age: z.int() })
    const { parsed } = await complete(test.provider, { messages: hi, responseSchema: person })
    expectTypeOf(parsed).toEqualTypeOf<{ name: string; age: number }>()
    expect(parsed).toEqual(alice)
    expect(test.wire()[0]!['response_format']).toMatchObject({
      json_schema: {
        strict: true,
        schema: { type: 'object', required: ['name', 'age'], additionalProperties: false },
      },
    })
  })

  it('has the type of a TypeBox type', async () => {
    await using test = await setup(reply)
    const person = Type.Object({ name: Type.String(), age: Type.Optional(Type.Integer()) })
    const { parsed } = await complete(test.provider, { messages: hi, responseSchema: person })
    expectTypeOf(parsed).toEqualTypeOf<{ name: string; age?: number }>()
    expect(parsed).toEqual(alice)
    expect(test.wire()[0]!['response_format']).toMatchObject({
      json_schema: { schema: { properties: { age: { type: 'integer' } } } },
    })
  })

  it('may be absent when the model may call tools', async () => {
    await using test = await setup(reply)
    const { parsed } = await complete(test.provider, { messages: hi, responseSchema: P, tools: [weather] })
    expectTypeOf(parsed).toEqualTypeOf<{ name: string; age: number } | undefined>()
    expect(parsed).toEqual(alice)
  })

  it("has the caller's type for a schema that is known at run time only", async () => {
    interface Person {
      readonly name: string
    }
    await using test = await setup(reply)
    const responseSchema: JsonSchema = P
    const own = await complete<Person>(test.provider, { messages: hi, responseSchema })
    expectTypeOf(own.parsed).toEqualTypeOf<Person>()
    const unknown = await complete(test.provider, { messages: hi, responseSchema })
    expectTypeOf(unknown.parsed).toEqualTypeOf<unknown>()
    expect(own.parsed).toEqual(unknown.parsed)
  })

  it('is absent without a schema', async () => {
    await using test = await setup(reply)
    const response = await complete(test.provider, { messages: hi })
    expectTypeOf(response.parsed).toEqualTypeOf<undefined>()
    expect(response.parsed).toBeUndefined()
  })
})

describe('the types of JSON Schemas', () => {
  it('are those of their values', () => {
    expectTypeOf<FromSchema<{ type: 'array'; items: { type: 'boolean' } }>>().toEqualTypeOf<boolean[]>()
    expectTypeOf<FromSchema<{ anyOf: [{ type: 'string' }, { type: 'null' }] }>>().toEqualTypeOf<
      string | null
    >()
    expectTypeOf<FromSchema<{ oneOf: [{ const: 1 }, { const: 'a' }] }>>().toEqualTypeOf<1 | 'a'>()
    expectTypeOf<FromSchema<{ type: 'object' }>>().toEqualTypeOf<Record<string, unknown>>()
    expectTypeOf<FromSchema<{ type: 'object'; additionalProperties: { type: 'number' } }>>().toEqualTypeOf<
      Record<string, number>
    >()
    expectTypeOf<
      FromSchema<{ type: 'array'; prefixItems: [{ type: 'string' }, { type: 'number' }]; items: false }>
    >().toEqualTypeOf<[string, number]>()
    expectTypeOf<FromSchema<{ $ref: '#/$defs/a' }>>().toEqualTypeOf<unknown>()
    expectTypeOf<FromSchema<{ type: 'string'; nullable: true }>>().toEqualTypeOf<string | null>()
  })
})

describe('a type of a library', () => {
  it('checks what its JSON Schema cannot say, and hands on what it makes of the value', async () => {
    await using test = await setup([completion('{"word":"even"}'), completion('{"word":"odd"}')])
    const responseSchema = z.object({
      word: z
        .string()
        .refine((word) => word.length % 2 === 0, 'must have an even length')
        .transform((word) => word.toUpperCase()),
    })
    const { parsed, message } = await complete(test.provider, { messages: hi, responseSchema })
    expectTypeOf(parsed).toEqualTypeOf<{ word: string }>()
    expect(parsed).toEqual({ word: 'EVEN' })
    expect(message.content).toBe('{"word":"even"}')
    const thrown: unknown = await complete(test.provider, { messages: hi, responseSchema }).catch((e) => e)
    expect(thrown).toBeInstanceOf(StructuredOutputInvalid)
    expect((thrown as StructuredOutputInvalid).errorMessage).toBe('/word: must have an even length')
  })

  it('is converted by Zod when it does not follow the standard of JSON Schemas', async () => {
    await using test = await setup(reply)
    const person = z.object({ name: z.string(), age: z.int() })
    const { jsonSchema: _, ...standard } = person['~standard']
    const older = Object.create(person, { '~standard': { value: standard } }) as typeof person
    const { parsed } = await complete(test.provider, { messages: hi, responseSchema: older })
    expect(parsed).toEqual(alice)
    expect(test.wire()[0]!['response_format']).toMatchObject({ json_schema: { strict: true } })
  })

  it('takes part in a reask', async () => {
    await using test = await setup([completion('{"n":3}'), completion('{"n":4}')])
    const responseSchema = z.object({ n: z.number().refine((n) => n % 2 === 0, 'must be even') })
    const { parsed } = await complete(
      test.provider,
      { messages: hi, responseSchema },
      { retry: { backoff: () => 0, reask: ({ errorMessage }) => errorMessage } },
    )
    expect(parsed).toEqual({ n: 4 })
    expect(test.wire()[1]!['messages']).toEqual([
      ...hi,
      { role: 'assistant', content: '{"n":3}' },
      { role: 'user', content: '/n: must be even' },
    ])
  })

  it('is refused when it has no JSON Schema, or none of an object', async () => {
    await using test = await setup(reply)
    for (const responseSchema of [z.object({ at: z.date() }), z.array(z.string())]) {
      const thrown: unknown = await complete(test.provider, { messages: hi, responseSchema }).catch((e) => e)
      expect(thrown).toBeInstanceOf(ProviderError)
      expect(thrown).toMatchObject({ code: 'schema_invalid', category: 'provider_invalid_request' })
    }
    expect(test.server.requests).toHaveLength(0)
  })
})

describe("the caller's own check", () => {
  it('follows that of the schema', async () => {
    await using test = await setup(reply)
    const refine = (value: unknown) => {
      throw new Error(`no: ${JSON.stringify(value)}`)
    }
    const call = complete(test.provider, { messages: hi, responseSchema: P }, { refine })
    await expect(call).rejects.toMatchObject({ errorMessage: `no: ${JSON.stringify(alice)}` })
  })
})
