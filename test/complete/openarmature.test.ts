// OpenArmature's published fixtures of the llm-provider capability, from the checkout that OPENARMATURE_SPEC names, and the proof
// that the runner compares what they state. At the end it prints a table: fixture, result, why.
import { readFileSync } from 'node:fs'
import { SpanStatusCode, trace } from '@opentelemetry/api'
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { type Fields, readDocuments, readFixture } from './openarmature/fixture.ts'
import { mappings } from './openarmature/mappings.ts'
import { mutantsOf } from './openarmature/mutants.ts'
import { runGroup, type SeenSpan } from './openarmature/runner.ts'
import { readSpanFixtures, runSpanFixture } from './openarmature/span-fixture.ts'

const checkout = process.env['OPENARMATURE_SPEC']
const exporter = new InMemorySpanExporter()
const rows: string[] = []

beforeAll(() => {
  trace.setGlobalTracerProvider(
    new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }),
  )
})

afterAll(() => {
  trace.disable()
  if (rows.length > 0) process.stdout.write(`\n${rows.join('\n')}\n`)
})

function takeSpans(): SeenSpan[] {
  const spans = exporter.getFinishedSpans().filter(({ name }) => name === 'openarmature.llm.complete')
  exporter.reset()
  return spans.map(({ attributes, status, events }) => ({
    attributes,
    status: SpanStatusCode[status.code],
    description: status.message,
    events: events.map((event) => event.name),
  }))
}

/** Throws when the document has an unknown key, or states something that does not hold. */
async function run(name: string, document: unknown): Promise<void> {
  for (const group of readFixture(name, document).groups) await runGroup(group, takeSpans)
}

async function noted(name: string, work: () => Promise<void>): Promise<void> {
  try {
    await work()
    rows.push(`${name} | pass |`)
  } catch (thrown) {
    rows.push(`${name} | fail | ${String(thrown).split('\n')[0]}`)
    throw thrown
  }
}

/** The mutants that no comparison noticed. */
async function unnoticed(name: string, document: unknown): Promise<string[]> {
  const survivors: string[] = []
  for (const { change, document: wrong } of mutantsOf(document))
    await run(name, wrong).then(
      () => survivors.push(change),
      () => {},
    )
  return survivors
}

describe('the runner', () => {
  const own = new URL('openarmature/own.yaml', import.meta.url)
  const documents = parse(readFileSync(own, 'utf8')) as Record<string, unknown>

  it.each(Object.entries(documents))('passes what holds: %s', async (name, document) => {
    await run(name, document)
  })

  it.each(Object.entries(documents))('notices every wrong statement: %s', async (name, document) => {
    expect(mutantsOf(document).length).toBeGreaterThan(1)
    expect(await unnoticed(name, document)).toEqual([])
  })

  it.each([
    ['at the top', { mock_provider: {}, calls: [], notes: 'x' }],
    [
      'in a call',
      { mock_provider: {}, calls: [{ operation: 'ready', hurry: true, expected: { success: true } }] },
    ],
    [
      'in a message',
      { mock_provider: {}, calls: [{ operation: 'complete', messages: [{ tone: 'x' }], expected: {} }] },
    ],
    ['in the server', { mock_provider: { latency: 3 }, calls: [] }],
    ['as an operation', { mock_provider: {}, calls: [{ operation: 'embed', expected: { success: true } }] }],
    [
      'as an invariant',
      {
        mock_provider: { responses: [] },
        calls: [
          {
            operation: 'complete',
            messages: [],
            expected: { raises: { category: 'provider_invalid_request' }, invariants: { all_is_well: true } },
          },
        ],
      },
    ],
  ])('refuses what it does not know %s', async (_, document) => {
    await expect(run('own', document)).rejects.toThrow(/know/)
  })
})

if (checkout === undefined)
  it.skip("OpenArmature's fixtures: OPENARMATURE_SPEC names no checkout of the specification", () => {})
else
  describe("OpenArmature's fixtures", () => {
    for (const [name, document] of readDocuments(checkout, 'llm-provider')) {
      const mapping = String((document as { mapping?: unknown }).mapping ?? 'openai')
      if (!mappings[mapping]) {
        rows.push(`${name} | skip | there is no provider for ${mapping}`)
        it.skip(`${name}: there is no provider for ${mapping}`, () => {})
        continue
      }
      it(name, () => noted(name, () => run(name, document)))
      it(`${name} states nothing that is not compared`, async () => {
        expect(await unnoticed(name, document)).toEqual([])
      }, 180_000)
    }
  })

if (checkout !== undefined)
  describe('the spans that its fixtures of observability state', () => {
    for (const [file, document] of readDocuments(checkout, 'observability'))
      for (const fixture of readSpanFixtures(file, document)) {
        const name = `observability ${fixture.name}`
        if (fixture.skipped !== undefined) {
          rows.push(`${name} | skip | ${fixture.skipped}`)
          it.skip(`${name}: ${fixture.skipped}`, () => {})
          continue
        }
        it(name, () => noted(name, () => runSpanFixture(fixture, takeSpans)))
        it(`${name} states no attribute that is not compared`, async () => {
          const wrong = mutantsOf(fixture.document).filter(({ change }) =>
            /^(?!.*\.(invariants|observers)\.).*(attribute(s\w*|_parses\w+)[.[]|_usage)/.test(change),
          )
          expect(wrong).not.toHaveLength(0)
          const survivors: string[] = []
          for (const { change, document: changed } of wrong)
            await runSpanFixture({ ...fixture, document: changed as Fields }, takeSpans).then(
              () => survivors.push(change),
              () => {},
            )
          expect(survivors).toEqual([])
        })
      }
  })
