// The whole flow on the memory broker: throughput with a model that answers at once, and the time to the first triple while the model is
// still writing.
import { performance } from 'node:perf_hooks'
import { createGrounder } from '../src/grounding/grounding.ts'
import type { CompletionEvent, Llm } from '../src/llm/llm.ts'
import { openExtraction, paragraphs } from '../test/support/extraction.ts'
import { type ExtractionKind, extractionReply } from '../test/support/llm-extraction.ts'
import { startLlmServer } from '../test/support/llm-server.ts'
import { median, type Row } from './row.ts'

const rounds = 5
const usage = { promptTokens: null, completionTokens: null, totalTokens: null }

/** As many items as the paragraphs of a chunk have. */
const replyTo = (kind: ExtractionKind, chunk: string) =>
  chunk
    .split('\n\n')
    .map((paragraph) => extractionReply(kind, paragraph))
    .join('')

/** A model in this process that answers at once. */
const instant: Llm = {
  provider: 'openai',
  model: 'instant',
  destination: 'this process',
  circuit: 'llm:instant',
  async *stream({ origin }): AsyncGenerator<CompletionEvent> {
    const kind = origin!.promptId.replace('extract-', '') as ExtractionKind
    yield { type: 'delta', kind: 'content', text: replyTo(kind, String(origin!.terms['text'])) }
    yield { type: 'end', finishReason: 'stop', usage, model: 'instant', raw: null }
  },
  ready: () => Promise.resolve(),
}

/** How many chunks a second, and their CPU in seconds, with so many paragraphs of about 190 characters in a chunk. */
async function measure(chunks: number, inChunk: number) {
  const text = paragraphs(chunks * inChunk)
  const rates: number[] = []
  const cpus: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const extraction = await openExtraction(instant, undefined, undefined, 200 * inChunk)
    await extraction.start()
    const cpu = process.cpuUsage()
    const began = performance.now()
    await extraction.load(text)
    await extraction.finished()
    const seconds = (performance.now() - began) / 1000
    const { user, system } = process.cpuUsage(cpu)
    await extraction.stop()
    if (round === 0) continue // warm-up
    rates.push(chunks / seconds)
    cpus.push((user + system) / 1e6)
  }
  const grounding = (100 * groundingCpu(text, inChunk)) / median(cpus)
  return { rate: median(rates), cpu: median(cpus), grounding }
}

async function throughput(): Promise<Row[]> {
  const small = await measure(1000, 1)
  const usual = await measure(100, 10)
  const share = { unit: '%', bound: '<= 5' }
  return [
    { name: 'flow: memory broker, three extractors, instant model', value: small.rate, unit: 'chunks/s' },
    { name: 'flow: CPU', value: small.cpu, unit: 's/1,000 chunks' },
    {
      name: 'flow: looking for the facts in their chunks, of its CPU',
      value: small.grounding,
      ...share,
    },
    { name: 'flow: the same, in chunks of 2,000 characters', value: usual.grounding, ...share },
  ]
}

/** The seconds of CPU that looking for the same facts takes. */
function groundingCpu(text: string, inChunk: number): number {
  const asked = { offset: 0, start: 0, pages: [], firstPage: 1 }
  const units = [
    ['definitions', { ...asked, names: ['entity'], sentences: ['definition'] }],
    ['relationships', { ...asked, names: ['subject', 'object'], sentences: [] }],
    ['topics', { ...asked, names: ['topic', 'name'], sentences: ['definition'] }],
  ] as const
  const parts = text.split('\n\n')
  const chunks = Array.from({ length: parts.length / inChunk }, (_, n) =>
    parts.slice(n * inChunk, (n + 1) * inChunk).join('\n\n'),
  )
  const work = chunks.flatMap((chunk) =>
    units.map(([kind, request]) => {
      const lines = replyTo(kind, chunk).trim().split('\n')
      return { chunk, request, items: lines.map((line) => JSON.parse(line) as object) }
    }),
  )
  const times: number[] = []
  for (let round = 0; round <= rounds; round++) {
    const cpu = process.cpuUsage()
    for (const { chunk, request, items } of work) {
      const { ground } = createGrounder(chunk, request)
      for (const item of items) ground(item)
    }
    const { user, system } = process.cpuUsage(cpu)
    if (round > 0) times.push((user + system) / 1e6)
  }
  return median(times)
}

/** From the end of the model's first line to the first stored triple, with 50 items at 100 tokens a second. */
async function firstTriple(): Promise<Row[]> {
  const line = (n: number) =>
    `{"entity": "mill ${n}", "definition": "a machine that grinds grain number ${n}"}\n`
  const lines = Array.from({ length: 50 }, (_, n) => line(n)).join('')
  const delays: number[] = []
  for (let round = 0; round < rounds; round++) {
    const server = await startLlmServer({
      tokensPerSecond: 100,
      rules: [{ match: 'grinds', in: 'all', reply: lines }],
    })
    const extraction = await openExtraction(server.url, ['extract-definitions'])
    await extraction.start()
    const stored = extraction.firstStored()
    await extraction.load('A mill grinds grain.')
    await server.until(({ calls }) => calls > 0)
    const asked = performance.now()
    // A token is about four characters.
    const written = asked + (line(0).length / 4 / 100) * 1000
    delays.push((await stored) - written)
    await extraction.stop()
    await server.close()
  }
  return [
    {
      name: 'flow: first triple after the first line of the model',
      value: median(delays),
      unit: 'ms',
      bound: '<= 100',
      note: '50 items at 100 tokens/s',
    },
  ]
}

export async function flowBench(): Promise<Row[]> {
  return [...(await throughput()), ...(await firstTriple())]
}
