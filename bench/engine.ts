// The prompt engine from the model's deltas to parts, in deltas of four characters, as a model writes them: grouped as the client of an
// OpenAI-compatible server passes them on (all deltas of one network read together), and one by one, as from a server that is slower than
// the engine. JSON.parse reads the same text in the same run. The growth of the time is measured, too.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { compileSchema } from '../src/items/validate.ts'
import { openCache } from '../src/llm/cache/reply-cache.ts'
import { joinDeltas } from '../src/llm/event-stream.ts'
import type { CompletionEvent, Llm } from '../src/llm/llm.ts'
import type { Prompt } from '../src/prompt/catalogue/prompt.ts'
import { type AskOptions, ask } from '../src/prompt/engine/engine.ts'
import { median, type Row } from './row.ts'

const rounds = 31

const schema = {
  type: 'object',
  required: ['entity', 'definition'],
  properties: { entity: { type: 'string' }, definition: { type: 'string' } },
}

const prompt: Prompt = {
  id: 'bench',
  responseType: 'jsonl',
  schema: compileSchema(schema),
  jsonSchema: schema,
  sampling: {},
  examples: [],
  types: [],
  file: 'bench',
  render: () => ({ system: 'Be exact.', user: 'Go.' }),
}

const itemOf = (n: number) => ({
  entity: `water mill ${n}`,
  definition: `A mill, number ${n}, whose wheel is turned by a stream, "the race", and grinds corn.`,
})

/** Deltas of four characters, each a separate string, as from the network. */
function deltasOf(text: string): CompletionEvent[] {
  const bytes = Buffer.from(text, 'latin1')
  const events: CompletionEvent[] = []
  for (let at = 0; at < bytes.length; at += 4)
    events.push({ type: 'delta', kind: 'content', text: bytes.toString('latin1', at, at + 4) })
  const usage = { promptTokens: 1, completionTokens: 1, totalTokens: 2 }
  events.push({ type: 'end', finishReason: 'stop', usage, model: 'bench', raw: undefined })
  return events
}

/** Deltas that a read of 64 KiB brings, at 190 bytes each in an event stream. */
const perRead = 345

/** Passes on the deltas of one read of `size` events together. */
function modelOf(events: readonly CompletionEvent[], size: number): Llm {
  const reads: CompletionEvent[][] = []
  for (let at = 0; at < events.length; at += size) reads.push(events.slice(at, at + size))
  return {
    provider: 'openai',
    model: 'bench',
    destination: 'nowhere',
    circuit: 'llm:bench',
    async *stream() {
      for (const read of reads) for (const event of joinDeltas(read)) yield event
    },
    async ready() {},
  }
}

interface Case {
  readonly count: number
  readonly array: string
  /** Deltas in reads of 64 KiB, and each in a read of its own. */
  readonly together: Llm
  readonly alone: Llm
}

function caseOf(count: number): Case {
  const items = Array.from({ length: count }, (_, n) => itemOf(n))
  const lines = items.map((item) => `${JSON.stringify(item)}\n`).join('')
  const deltas = deltasOf(lines)
  return {
    count,
    array: JSON.stringify(items),
    together: modelOf(deltas, perRead),
    alone: modelOf(deltas, 1),
  }
}

const never = new AbortController().signal

async function throughEngine({ count }: Case, llm: Llm): Promise<number> {
  const begun = performance.now()
  let accepted = 0
  const newRun = () => ({ id: 'r', startedAt: 0 })
  for await (const part of ask({ prompt, terms: {}, llm, streaming: true, newRun, signal: never }))
    accepted = part.accepted
  if (accepted !== count) throw new Error(`${accepted} items instead of ${count}`)
  return performance.now() - begun
}

function parsed({ count, array }: Case): number {
  const begun = performance.now()
  const items = JSON.parse(array) as unknown[]
  if (items.length !== count) throw new Error(`${items.length} items instead of ${count}`)
  return performance.now() - begun
}

/** Only takes the deltas from the model and calls JSON.parse: the minimum for any reader of this stream. */
async function takenAndParsed({ count, array }: Case, llm: Llm): Promise<number> {
  const begun = performance.now()
  let characters = 0
  for await (const event of llm.stream({ messages: [] }, never))
    if (event.type === 'delta') characters += event.text.length
  const items = JSON.parse(array) as unknown[]
  if (items.length !== count || characters < array.length - 2) throw new Error('Not all of it was taken.')
  return performance.now() - begun
}

/** How much longer a replay of a remembered run takes than a model that answers at once, in milliseconds. */
async function replayed(): Promise<Row> {
  const dir = await mkdtemp(join(tmpdir(), 'graphmill-bench-'))
  const replies = openCache({ dir })
  const { alone: llm } = caseOf(30)
  const timed = async (text: string, cache: AskOptions['cache']) => {
    const begun = performance.now()
    const about = { ...prompt, render: () => ({ system: 'Be exact.', user: text }) }
    const newRun = () => ({ id: 'r', startedAt: 0 })
    const run = ask({ prompt: about, terms: {}, llm, streaming: true, newRun, cache, signal: never })
    for await (const part of run) if (part.end && part.accepted !== 30) throw new Error('Items are missing.')
    return performance.now() - begun
  }
  try {
    const texts = Array.from({ length: 201 }, (_, n) => `Text ${n}.`)
    const cache = { replies, workspace: 'bench' }
    for (const text of texts) await timed(text, cache)
    const added: number[] = []
    for (const text of texts) added.push((await timed(text, cache)) - (await timed(text, undefined)))
    const name = 'engine: a remembered run of 30 items, against a model that answers at once'
    return { name, value: median(added), unit: 'ms added', bound: '<= 2' }
  } finally {
    await replies.close()
    await rm(dir, { recursive: true })
  }
}

export async function engineBench(): Promise<Row[]> {
  const small = caseOf(800)
  const large = caseOf(1600)
  const measures = {
    parse: () => parsed(small),
    together: () => throughEngine(small, small.together),
    largeTogether: () => throughEngine(large, large.together),
    taken: () => takenAndParsed(small, small.alone),
    alone: () => throughEngine(small, small.alone),
    largeAlone: () => throughEngine(large, large.alone),
  }
  // The fastest round of each: slower rounds were disturbed by other work of the machine.
  const least: Record<string, number> = {}
  for (let round = -5; round < rounds; round++)
    for (const [name, measure] of Object.entries(measures)) {
      const time = await measure()
      if (round >= 0) least[name] = Math.min(time, least[name] ?? Number.POSITIVE_INFINITY)
    }
  const { parse = 0, together = 0, largeTogether = 0, taken = 0, alone = 0, largeAlone = 0 } = least
  const ms = (time: number) => `${time.toFixed(2)} ms`
  return [
    {
      name: 'engine: 800 items in deltas of 4 characters, in reads of 64 KiB, against JSON.parse of the text',
      value: together / parse,
      unit: 'x',
      bound: '<= 3',
      note: `${ms(together)}; JSON.parse ${ms(parse)}`,
    },
    {
      name: 'engine: 1,600 items against 800, in reads of 64 KiB',
      value: largeTogether / together,
      unit: 'x',
      bound: '<= 2.2',
      note: ms(largeTogether),
    },
    {
      name: 'engine: 800 items, each delta in a read of its own, against JSON.parse of the text',
      value: alone / parse,
      unit: 'x',
      bound: '<= 3',
      note: `${ms(alone)}; only to await the deltas takes ${ms(taken - parse)}`,
    },
    {
      name: 'engine: the same, against taking the same deltas and JSON.parse',
      value: alone / taken,
      unit: 'x',
      bound: '<= 3',
      note: ms(taken),
    },
    {
      name: 'engine: 1,600 items against 800, each delta in a read of its own',
      value: largeAlone / alone,
      unit: 'x',
      bound: '<= 2.2',
      note: ms(largeAlone),
    },
    await replayed(),
  ]
}

if (import.meta.main) console.table(await engineBench())
