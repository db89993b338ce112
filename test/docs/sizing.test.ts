// docs/sizing.md: its table follows from its figures, by the arithmetic that it states.
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { topicSpec } from '../../src/broker/topics.ts'
import { optionTable } from '../../src/config/options.ts'

const page = readFileSync('docs/sizing.md', 'utf8')
const models = readFileSync('docs/models.md', 'utf8')

const numberOf = (cell: string) => Number(cell.replaceAll(',', ''))

/** The cells behind the first one of a row, as numbers; NaN for words. */
function row(name: string): number[] {
  const line = page.split('\n').find((each) => each.startsWith(`| ${name} |`))
  if (!line) throw new Error(`docs/sizing.md has no row ${name}`)
  return line.split('|').slice(2, -1).map(numberOf)
}

const figure = (name: string) => row(name)[0]!
const cost = (name: string) => ({ cpu: row(name)[0]! / 1000, memory: row(name)[1]! })

const processors = {
  'chunk-text': { ...cost('`chunk-text`'), count: 1 },
  prompt: { ...cost('`prompt`'), count: 1 },
  'each extractor': { ...cost('an extractor, each'), count: optionTable.extractors.default.length },
  'emit-triples': { ...cost('`emit-triples`'), count: 1 },
  'store-triples': { ...cost('`store-triples`, to files'), count: 1 },
  ledger: { ...cost('`ledger`'), count: 1 },
}
type Name = keyof typeof processors

function sizes(chunksADay: number, concurrency: number): Record<string, number> {
  const rate = chunksADay / 86_400
  const calls = (rate * figure('calls') * figure('seconds of a call')) / 0.7
  const forCpu = (name: Name) => Math.ceil((rate * processors[name].cpu) / 0.5)
  const replicas = Object.fromEntries(
    Object.keys(processors).map((name) => [name, forCpu(name as Name)]),
  ) as Record<Name, number>
  replicas.prompt = Math.max(replicas.prompt, Math.ceil(calls / concurrency))
  const upTo = (multiple: number, least: number) => Math.ceil(least / multiple) * multiple
  const total = (of: (name: Name) => number) =>
    (Object.keys(processors) as Name[]).reduce((sum, name) => sum + processors[name].count * of(name), 0)
  const others = Math.max(
    replicas['chunk-text'],
    replicas['emit-triples'],
    replicas['store-triples'],
    replicas.ledger,
  )
  const kib = figure('KiB of messages')
  return {
    'chunks a second': rate,
    'calls at once': calls,
    'replicas of `prompt`': replicas.prompt,
    'partitions of `chunk`, `prompt` and replies': upTo(
      topicSpec('gm.request.prompt.w.f').partitions,
      3 * replicas.prompt,
    ),
    'tokens a minute': (chunksADay * (figure('prompt tokens') + figure('reply tokens'))) / 1440,
    'replicas of `chunk-text`': replicas['chunk-text'],
    'replicas of each extractor': replicas['each extractor'],
    'replicas of `emit-triples`': replicas['emit-triples'],
    'replicas of `store-triples`': replicas['store-triples'],
    'replicas of `ledger`': replicas.ledger,
    'partitions of other topics': upTo(topicSpec('gm.flow.triples.w.f').partitions, others),
    'cores in use': rate * total((name) => processors[name].cpu),
    'memory, GiB': total((name) => replicas[name] * processors[name].memory) / 1024,
    'messages, MiB a second': (rate * kib) / 1024,
    "Kafka's disk, GiB a day": (chunksADay * kib * 3) / 1024 ** 2,
  }
}

test('the table follows from the figures', () => {
  const [days, concurrencies] = [row('chunks a day'), row('`--concurrency`')]
  const expected = days.map((chunksADay, column) => sizes(chunksADay, concurrencies[column]!))
  for (const name of Object.keys(expected[0]!))
    expect([name, ...row(name)]).toEqual([
      name,
      ...expected.map((column) =>
        Number.isInteger(column[name]) ? column[name] : Number(column[name]!.toPrecision(3)),
      ),
    ])
})

test('the tokens of a chunk are those of the page about models', () => {
  const [, prompt, reply] = /^tokens +about (\d+) in, (\d+) out$/m.exec(models)!.map(Number)
  const [, chunks] = /^chunks +(\d+)$/m.exec(models)!.map(Number)
  expect(figure('prompt tokens')).toBe(Math.round(prompt! / chunks!))
  expect(figure('reply tokens')).toBe(Math.round(reply! / chunks!))
})

test('the chunk of the figures is the default one', () => {
  expect(page).toContain(`${optionTable['chunk-size'].default.toLocaleString('en')} characters, the default`)
  expect(page).toContain(
    `the ${['no', 'one', 'two', 'three'][optionTable.extractors.default.length]} default extractors`,
  )
  expect(figure('calls')).toBe(optionTable.extractors.default.length)
  expect(row('`--concurrency`')[0]).toBe(optionTable.concurrency.default)
})
