// A crash cuts the model, which answers differently, and in other pieces, the second time: the graph holds what was heard
// of both answers and nothing else, and what is counted is one complete answer for each unit.
import { expect } from 'vitest'
import type { Message } from '../../src/messages/envelope.ts'
import { definitionTriples, relationshipTriples, topicTriples } from '../../src/rdf/facts.ts'
import { difference, textOfTriple } from '../support/graph.ts'
import { type ExtractionKind, extractionReply, guessExtraction } from '../support/llm-extraction.ts'
import { chunkOf, type Reply } from '../support/llm-script.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { chunks, type Execution, openExecution, type Site, units } from './execution.ts'
import { someTriples } from './scenarios.ts'

const kinds: readonly ExtractionKind[] = ['definitions', 'relationships', 'topics']

export async function secondAnswer(site: Site): Promise<void> {
  const asked = new Map<string, number>()
  const answer = ({ prompt }: { prompt: string }): Reply => {
    const chunk = chunkOf(prompt)
    const kind = guessExtraction(prompt.replace(chunk, ''))!
    const times = (asked.get(`${kind} ${chunk}`) ?? 0) + 1
    asked.set(`${kind} ${chunk}`, times)
    if (times === 1) return { text: extractionReply(kind, chunk) }
    // Another hash, so other words and another number of items, and longer deltas.
    const other = extractionReply(kind, `${chunk} Once more.`)
    return { text: other, pieces: other.match(/.{1,17}/gs) ?? [] }
  }
  await using llm = await startLlmServer({ rules: [{ reply: answer }], tokensPerSecond: 150 })
  const execution = await openExecution(site, { space: 'second-answer', llmUrl: llm.url })
  try {
    await execution.startRuntime({ without: ['prompt'] })
    const prompt = await execution.startProcess(['prompt'])
    await execution.load()
    await execution.until(({ units }) => units.done >= 100)
    await someTriples(execution)
    await prompt.end('SIGKILL')
    await execution.startProcess(['prompt'])
    const status = await execution.finished()
    const heard = await replies(execution)

    // The crash did what it is here for: replies were cut when some of their items were out already.
    const cut = [...heard.values()].filter((runs) =>
      runs.some((run) => !run.complete && run.items.length > 0),
    )
    expect(cut.length).toBeGreaterThan(0)
    const expected = new Set([...heard].flatMap(([unit, runs]) => triplesOf(unit, runs)))
    expect(difference(await execution.graph(), expected)).toMatchObject({
      missing: { count: 0 },
      invented: { count: 0 },
    })
    // And what was heard is what the model said.
    const said = new Set([...asked.keys()].flatMap(saidOf))
    expect(difference(expected, said)).toMatchObject({ invented: { count: 0 } })

    expect(status).toMatchObject({
      state: 'done',
      chunks,
      units: { expected: units, done: units, partial: 0, dead: 0 },
    })
    expect(heard.size).toBe(units)
    for (const kind of kinds) expectCounted(status.totals.facts[kind] ?? 0, kind, heard)
  } finally {
    await execution.close()
  }
}

interface Run {
  readonly items: unknown[]
  readonly seqs: Set<number>
  last: number | undefined
  readonly complete: boolean
}

/** What the extractors heard: the runs of each unit, by `<kind> <chunk id>`. */
async function replies(execution: Execution): Promise<Map<string, Run[]>> {
  const heard = new Map<string, Map<string, Run>>()
  for (const kind of kinds) {
    const topic = execution.topic('prompt-reply', `extract-${kind}`)
    for (const message of await execution.messages(topic)) {
      const { chunkId, payload } = message as Message<'PromptResponse'>
      const runs = heard.get(`${kind} ${chunkId}`) ?? new Map<string, Run>()
      heard.set(`${kind} ${chunkId}`, runs)
      const run = runs.get(payload.run.id) ?? newRun()
      runs.set(payload.run.id, run)
      if (run.seqs.has(payload.seq)) continue
      run.seqs.add(payload.seq)
      run.items.push(...(JSON.parse(payload.object ?? '[]') as unknown[]))
      if (payload.endOfStream) run.last = payload.seq
    }
  }
  return new Map([...heard].map(([unit, runs]) => [unit, [...runs.values()]]))
}

function newRun(): Run {
  return {
    items: [],
    seqs: new Set(),
    last: undefined,
    get complete() {
      return this.last !== undefined && this.seqs.size === this.last + 1
    },
  }
}

/** The facts that were counted are those of one complete run for each unit: where two are complete, of either. */
function expectCounted(counted: number, kind: ExtractionKind, heard: ReadonlyMap<string, readonly Run[]>) {
  let [least, most] = [0, 0]
  for (const [unit, runs] of heard) {
    if (!unit.startsWith(`${kind} `)) continue
    const sizes = runs.filter(({ complete }) => complete).map(({ items }) => items.length)
    least += Math.min(...sizes)
    most += Math.max(...sizes)
  }
  expect(counted).toBeGreaterThanOrEqual(least)
  expect(counted).toBeLessThanOrEqual(most)
}

const triplesOf = (unit: string, runs: readonly Run[]) =>
  runs.flatMap(({ items }) =>
    items.flatMap((item) => itemTriples(unit.split(' ')[0] as ExtractionKind, item)),
  )

/** The triples of all that the model may have said of `<kind> <chunk>`. */
function saidOf(question: string): string[] {
  const kind = question.slice(0, question.indexOf(' ')) as ExtractionKind
  const chunk = question.slice(kind.length + 1)
  return [chunk, `${chunk} Once more.`].flatMap((text) =>
    extractionReply(kind, text)
      .trim()
      .split('\n')
      .flatMap((line) => itemTriples(kind, JSON.parse(line))),
  )
}

function itemTriples(kind: ExtractionKind, item: unknown): string[] {
  const {
    entity = '',
    definition = '',
    topic = '',
    subject = '',
    predicate = '',
    object = '',
    ...rest
  } = item as Record<string, string>
  const objectEntity = (rest as Record<string, unknown>)['object-entity'] !== false
  const { triples } =
    kind === 'definitions'
      ? definitionTriples({ entity, definition })
      : kind === 'topics'
        ? topicTriples({ topic, definition })
        : relationshipTriples({ subject, predicate, object, objectEntity })
  return triples.map(textOfTriple)
}
