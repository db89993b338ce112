// Asks the engine directly, with prompts made for a test.
import { compileSchema } from '../../src/items/validate.ts'
import type { JsonSchema, Llm } from '../../src/llm/llm.ts'
import type { Prompt } from '../../src/prompt/catalogue/prompt.ts'
import { type AskOptions, ask, type RunPart } from '../../src/prompt/engine/engine.ts'
import type { ReplyEnd } from '../../src/prompt/engine/reply.ts'

/** A prompt whose user message is the term `text`. */
export function testPrompt(more: Partial<Prompt> & { readonly jsonSchema?: JsonSchema } = {}): Prompt {
  const { jsonSchema } = more
  return {
    id: 'test',
    responseType: 'jsonl',
    sampling: {},
    examples: [],
    types: [],
    file: 'test.yaml',
    render: ({ text }) => ({ system: 'Be exact.', user: `Read: ${String(text)}` }),
    ...(jsonSchema && { schema: compileSchema(jsonSchema) }),
    ...more,
  }
}

/** Items {"e": …, "d": …}. */
export const itemSchema = {
  type: 'object',
  required: ['e', 'd'],
  properties: { e: { type: 'string' }, d: { type: 'string' } },
} as const satisfies JsonSchema

export const itemOf = (n: number) => ({ e: `entity ${n}`, d: `what "${n}" is, \\ in a {word}` })

/** Lines of the items from `first` on. */
export const linesOf = (count: number, first = 0) =>
  Array.from({ length: count }, (_, n) => `${JSON.stringify(itemOf(first + n))}\n`).join('')

const itemPrompt = testPrompt({ jsonSchema: itemSchema })

export interface Asked {
  readonly parts: RunPart[]
  readonly items: unknown[]
  readonly text: string
  readonly end: ReplyEnd
}

let runs = 0

/** All parts of a run, and what is in them. */
export async function askAll(llm: Llm, more: Partial<AskOptions> = {}): Promise<Asked> {
  const parts: RunPart[] = []
  const options: AskOptions = {
    prompt: itemPrompt,
    terms: { text: 'a text' },
    llm,
    streaming: true,
    newRun: () => ({ id: `run-${++runs}`, startedAt: runs }),
    signal: new AbortController().signal,
    ...more,
  }
  for await (const part of ask(options)) parts.push(part)
  const items = parts.flatMap(({ object }) => {
    const value: unknown = object === undefined ? [] : JSON.parse(object)
    return Array.isArray(value) ? value : [value]
  })
  return { parts, items, text: parts.map(({ text = '' }) => text).join(''), end: parts.at(-1)!.end! }
}
