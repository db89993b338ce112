// Events that are read by their pattern give the same text as parsed ones.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { CompletionEvent } from '../../../src/llm/llm.ts'
import { matchPattern, patternOf } from '../../../src/llm/openai/pattern.ts'
import { type OpenAiReply, readBatches } from '../../../src/llm/openai/reply.ts'

const peer = {
  destination: 'a model',
  circuit: 'llm',
  apiKey: undefined,
  timeoutMs: 1000,
  callTimeoutMs: 1000,
}

async function eventsOf(events: readonly string[], more: Partial<OpenAiReply> = {}) {
  const body = events.map((data) => `data: ${data}\n\n`).join('')
  const response = new Response(body)
  const got: CompletionEvent[] = []
  const signal = new AbortController().signal
  try {
    for await (const batch of readBatches({ response, model: 'm', peer, signal, ...more })) got.push(...batch)
  } catch (thrown) {
    return { got, failure: (thrown as Error).message }
  }
  return { got }
}

/** With `onChunk` every chunk is parsed. */
const everyChunk = { onChunk: () => {} }

const chunk = (fields: object, rest: object = {}) =>
  JSON.stringify({
    id: 'c',
    model: 'm-1',
    choices: [{ index: 0, delta: fields, finish_reason: null, ...rest }],
  })

const texts = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 6 }),
  fc.constantFrom(
    '',
    '"',
    '\\',
    '\\"',
    '"content":"x"',
    '"},"content":"',
    '\n',
    '\u0000',
    'graphmill',
    '😀',
    '\ud83d',
  ),
)
const said = fc.oneof(
  { weight: 6, arbitrary: texts.map((content) => chunk({ content })) },
  fc.tuple(texts, texts).map(([content, name]) => chunk({ role: 'assistant', name, content })),
  fc.tuple(texts, texts).map(([content, text]) => chunk({ content, reasoning_content: text })),
  fc.tuple(texts, texts).map(([content, refusal]) => chunk({ content, refusal })),
  fc.tuple(texts, texts).map(([content, other]) => chunk({ content }, { logprobs: { content: other } })),
  fc
    .tuple(texts, texts)
    .map(([a, b]) =>
      chunk({ content: 'x' }).replace(
        '"content":"x"',
        `"content": ${JSON.stringify(a)}, "content": ${JSON.stringify(b)}`,
      ),
    ),
  texts.map((content) => chunk({ content }, { finish_reason: 'length' })),
  fc.nat(3).map((count) => JSON.stringify({ choices: [], usage: { prompt_tokens: count } })),
  fc
    .tuple(texts, fc.nat(3))
    .map(([content, completion_tokens]) =>
      JSON.stringify({ ...JSON.parse(chunk({ content })), usage: { completion_tokens } }),
    ),
  fc.constantFrom(
    '{"choices":[]}',
    '{"error":{"message":"no"}}',
    '7',
    'nonsense',
    '{"choices":[null]}',
    '[DONE]',
  ),
)

describe('a reply read by patterns', () => {
  it('has the same text as one that is read chunk by chunk', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(said, { maxLength: 25 }), async (events) => {
        expect(await eventsOf(events)).toEqual(await eventsOf(events, everyChunk))
      }),
      { numRuns: 500 },
    )
  })

  it('ends with its last chunk, whole', async () => {
    const { got } = await eventsOf([chunk({ content: 'a' }), chunk({ content: 'b"c' }), '[DONE]'])
    expect(got.map((event) => (event.type === 'delta' ? event.text : event.raw))).toEqual([
      'a',
      'b"c',
      JSON.parse(chunk({ content: 'b"c' })),
    ])
  })
})

describe('a pattern', () => {
  it('is found in the content, not in another field of that name', () => {
    const data = '{"echo":{"content":"a"},"choices":[{"delta":{"content":"a"},"logprobs":{"content":"a"}}]}'
    const pattern = patternOf(data, JSON.parse(data))!
    expect(matchPattern(pattern, data.replace('delta":{"content":"a"', 'delta":{"content":"b\\n"'))).toBe(
      'b\n',
    )
    expect(
      matchPattern(pattern, data.replace('echo":{"content":"a"', 'echo":{"content":"b"')),
    ).toBeUndefined()
  })

  it('does not match an event that goes on after the text', () => {
    const pattern = patternOf(chunk({ content: 'a' }), JSON.parse(chunk({ content: 'a' })))!
    expect(matchPattern(pattern, chunk({ content: 'x' }))).toBe('x')
    for (const literal of ['a","b":"', 'a\\', 'a\n', '\\u12'])
      expect(matchPattern(pattern, pattern.head + literal + pattern.tail)).toBeUndefined()
  })
})
