// The items engine compared with the minimum that could do the job: split at newlines, JSON.parse and the same compiled validator. Both
// read the same items in one run; the engine gets pieces of 64 characters, as a model writes them.
import type { ItemEvent } from '../src/items/item.ts'
import { createItemsParser } from '../src/items/parser.ts'
import { compileSchema, type ItemSchema } from '../src/items/validate.ts'
import { median, type Row } from './row.ts'

const rounds = 5
const pieceLength = 64
/** Characters of a token, approximately. */
const deltaLength = 4
/** How often each reads the same text, one time after the other, as one long reply. */
const times = 20

const schema = {
  oneOf: [
    {
      type: 'object',
      properties: {
        type: { const: 'definition' },
        entity: { type: 'string' },
        definition: { type: 'string' },
      },
      required: ['type', 'entity', 'definition'],
    },
    {
      type: 'object',
      properties: {
        type: { const: 'relationship' },
        subject: { type: 'string' },
        predicate: { type: 'string' },
        object: { type: 'string' },
        'object-entity': { type: 'boolean' },
      },
      required: ['type', 'subject', 'predicate', 'object'],
    },
  ],
}

const words =
  'water wheel race stone grain miller river valley flour bridge weir sluice gear shaft oak iron harvest village road market'.split(
    ' ',
  )

/** Some words, different for each seed. */
function phrase(seed: number, count: number): string {
  return Array.from(
    { length: count },
    (_, at) => words[(seed * 7 + at * at * 3 + (seed >> (at % 8))) % words.length],
  ).join(' ')
}

/** Items as a model writes them for a page of prose: definitions of about 25 words, and relationships. */
function makeItems(count: number): object[] {
  return Array.from({ length: count }, (_, index) =>
    index % 2 === 0
      ? {
          type: 'definition',
          entity: `${phrase(index, 2)} ${index}`,
          definition: `A ${phrase(index + 1, 9)} that the ${phrase(index + 2, 1)} turns, and whose ${phrase(index + 3, 11)}.`,
        }
      : {
          type: 'relationship',
          subject: `${phrase(index, 2)} ${index}`,
          predicate: `is the "${phrase(index + 1, 1)}" of`,
          object: `the ${phrase(index + 2, 3)}`,
          'object-entity': true,
        },
  )
}

/** A form in which a model writes items, and the plainest reader that knows the form. */
interface Form {
  readonly write: (items: readonly object[]) => string
  readonly parse: (text: string, take: (value: unknown) => void) => void
}

const toLines = (items: readonly object[]) => items.map((item) => JSON.stringify(item)).join('\n')
function parseLines(text: string, take: (value: unknown) => void): void {
  for (const line of text.split('\n')) if (line.startsWith('{')) take(JSON.parse(line))
}

const forms: Readonly<Record<string, Form>> = {
  clean: { write: (items) => `${toLines(items)}\n`, parse: parseLines },
  'pretty-printed': {
    write: (items) => `${items.map((item) => JSON.stringify(item, null, 2)).join('\n')}\n`,
    parse: (text, take) => {
      for (const part of text.split('\n}\n')) if (part !== '') take(JSON.parse(`${part}}`))
    },
  },
  fenced: {
    write: (items) => `Here they are:\n\n\`\`\`json\n${toLines(items)}\n\`\`\`\n`,
    parse: parseLines,
  },
  wrapped: {
    write: (items) => JSON.stringify({ items }),
    parse: (text, take) => {
      for (const item of JSON.parse(text).items) take(item)
    },
  },
}

function cut(text: string, length = pieceLength): string[] {
  const pieces: string[] = []
  // Each piece is a separate string, as from the network, not a view into the whole.
  const bytes = Buffer.from(text, 'latin1')
  for (let at = 0; at < bytes.length; at += length) pieces.push(bytes.toString('latin1', at, at + length))
  return pieces
}

function readPlainly(text: string, form: Form, compiled: ItemSchema): number {
  let count = 0
  const take = (value: unknown) => {
    if (compiled.test(value)) count++
  }
  for (let time = 0; time < times; time++) form.parse(text, take)
  return count
}

function readPieces(pieces: readonly string[], compiled: ItemSchema): number {
  const parser = createItemsParser(compiled)
  let count = 0
  const take = (events: readonly ItemEvent[]) => {
    for (let index = 0; index < events.length; index++) if (events[index]?.type === 'item') count++
  }
  for (let time = 0; time < times; time++) for (const piece of pieces) take(parser.push(piece))
  take(parser.end().events)
  return count
}

/** The milliseconds of CPU that `work` takes in this thread: other work of the machine affects it less than a clock. */
function cpu(work: () => void): number {
  // Node 22 has only the time of all threads.
  const usage = process.threadCpuUsage ?? process.cpuUsage
  const before = usage()
  work()
  const { user, system } = usage()
  return (user + system - before.user - before.system) / 1000
}

function ratios(compiled: ItemSchema): Row[] {
  const items = makeItems(5_000)
  return Object.entries(forms).map(([name, form]) => {
    const text = form.write(items)
    const pieces = cut(text)
    const expect = (count: number) => {
      if (count !== times * items.length) throw new Error(`${name}: ${count} items`)
    }
    const plain = () => cpu(() => expect(readPlainly(text, form, compiled)))
    const engine = () => cpu(() => expect(readPieces(pieces, compiled)))
    for (let round = 0; round < 3; round++) {
      plain()
      engine()
    }
    const seen = Array.from({ length: rounds }, () => ({ plain: plain(), engine: engine() }))
    const perSecond = ((times * items.length) / median(seen.map((each) => each.engine))) * 1000
    return {
      name: `items: ${name}, in pieces of ${pieceLength}, against split + JSON.parse of the whole`,
      value: median(seen.map((each) => each.plain / each.engine)),
      unit: 'x',
      bound: name === 'clean' ? '>= 0.6' : '>= 0.2',
      note: `${Math.round(perSecond)} items/s`,
    }
  })
}

/** The time to push 800 items delta by delta, in the fastest round: slower rounds were disturbed by other work of the machine. */
function deltas(compiled: ItemSchema): Row[] {
  const items = makeItems(800)
  const array = JSON.stringify(items)
  const timed = (work: () => number) => {
    const begun = performance.now()
    if (work() !== items.length) throw new Error('Items are missing.')
    return performance.now() - begun
  }
  return ['clean', 'pretty-printed', 'wrapped'].map((name) => {
    const pieces = cut(forms[name]?.write(items) ?? '', deltaLength)
    const push = () => {
      const parser = createItemsParser(compiled)
      let count = 0
      for (const piece of pieces) count += parser.push(piece).length
      return count
    }
    const parse = () => (JSON.parse(array) as unknown[]).length
    const best = { push: Number.POSITIVE_INFINITY, parse: Number.POSITIVE_INFINITY }
    for (let round = 0; round < 200; round++) {
      best.push = Math.min(best.push, timed(push))
      best.parse = Math.min(best.parse, timed(parse))
    }
    return {
      name: `items: ${name}, 800 in deltas of ${deltaLength}, push alone against JSON.parse of the whole`,
      value: best.push / best.parse,
      unit: 'x',
      note: `${Math.round((best.push * 1e6) / pieces.length)} ns a delta`,
    }
  })
}

/** Reads about `length` characters that are made on the fly, so that only the engine holds memory. Returns milliseconds of CPU. */
function readGenerated(length: number, compiled: ItemSchema, look?: () => void): number {
  const pieces = cut(forms['clean']?.write(makeItems(200)) ?? '')
  return cpu(() => {
    const parser = createItemsParser(compiled)
    let count = 0
    for (let fed = 0, round = 0; fed < length; round++) {
      for (const piece of pieces) {
        fed += piece.length
        count += parser.push(piece).length
      }
      if (round % 256 === 0) look?.()
    }
    parser.end()
    if (count === 0) throw new Error('no items')
  })
}

function doubling(compiled: ItemSchema): Row[] {
  readGenerated(5e6, compiled)
  return [25, 50].map((megabytes) => {
    const factors = Array.from(
      { length: rounds },
      () => 1 / (readGenerated(megabytes * 1e6, compiled) / readGenerated(2 * megabytes * 1e6, compiled)),
    )
    return {
      name: `items: time for ${2 * megabytes} MB against ${megabytes} MB`,
      value: median(factors),
      unit: 'x',
      bound: '<= 2.2',
    }
  })
}

function memory(compiled: ItemSchema): Row {
  const collect = globalThis.gc
  collect?.()
  const before = process.memoryUsage().heapUsed
  let peak = before
  readGenerated(100e6, compiled, () => {
    collect?.()
    peak = Math.max(peak, process.memoryUsage().heapUsed)
  })
  return {
    name: 'items: heap on top while 100 MB pass through',
    value: (peak - before) / 1e6,
    unit: 'MB',
    bound: '<= 64',
    note: collect ? 'after collection' : 'garbage included',
  }
}

/** The numbers of the items engine: ratios to the plain reader, growth with the input, memory. */
export async function itemsBench(): Promise<Row[]> {
  const compiled = compileSchema(schema)
  return [...ratios(compiled), ...deltas(compiled), ...doubling(compiled), memory(compiled)]
}

if (import.meta.main) console.table(await itemsBench())
