import { deflateRawSync, inflateRawSync } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Message } from '../../src/messages/envelope.ts'
import type { Progress } from '../../src/messages/generated.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'

const nothing: Progress = {
  kind: '',
  part: null,
  parts: null,
  chunks: null,
  units: [],
  unit: null,
  run: null,
  seq: 0,
  last: false,
  incomplete: null,
  facts: {},
  rejected: {},
  repaired: 0,
  duplicates: 0,
  ungrounded: 0,
  usage: null,
  model: null,
  topic: null,
  title: null,
  error: null,
  lost: null,
  until: null,
  reason: null,
  keys: Buffer.alloc(0),
} as Progress

let causes = 0
const entry = (
  payload: Partial<Progress>,
  more: { chunkId?: string; causationId?: string; time?: number } = {},
): Message<'Progress'> => ({
  id: `p${++causes}`,
  type: 'Progress',
  source: 'test',
  time: 0,
  workspace: 'w',
  flow: 'f',
  collection: 'c',
  documentId: 'urn:d',
  chunkId: '',
  correlationId: '',
  causationId: `c${causes}`,
  replyTo: null,
  deadline: null,
  traceparent: null,
  version: '',
  versionTime: 0,
  payload: { ...nothing, ...payload },
  ...more,
})

const units = ['one', 'two']
const start = (chunks = 2) => [
  entry({ kind: 'document', parts: 1, title: 'T' }),
  entry({ kind: 'part', part: 0, chunks, units }),
]
const reply = (unit: string, index: number, run: string, more: Partial<Progress> = {}) =>
  entry(
    {
      kind: 'reply',
      unit,
      run: { id: run, startedAt: 1 },
      seq: 0,
      last: true,
      facts: { definitions: 2 },
      ...more,
    },
    { chunkId: `urn:d/0/${index}` },
  )
const dead = (role: string, unit: string | null, index: number, causationId = 'dead') =>
  entry(
    { kind: 'dead', unit, topic: `gm.${role}.w.f`, error: { type: 'unexpected', message: 'boom' } },
    { chunkId: `urn:d/0/${index}`, causationId },
  )
const replayed = (index: number, causationId = 'dead') =>
  entry({ kind: 'replayed' }, { chunkId: `urn:d/0/${index}`, causationId })
const all = [0, 1].flatMap((index) => units.map((unit) => reply(unit, index, `r-${unit}-${index}`)))

const statusAfter = (entries: readonly Message<'Progress'>[]) => {
  const aggregate = createProgressAggregate()
  for (const each of entries) aggregate.add(each)
  return aggregate.status('urn:d')!
}

describe('a document', () => {
  test('is queued, then running, then done when every unit of every chunk is', () => {
    expect(statusAfter(start().slice(0, 1)).state).toBe('queued')
    expect(statusAfter([...start(), all[0]!]).state).toBe('running')
    expect(statusAfter([...start(), ...all])).toMatchObject({
      state: 'done',
      chunks: 2,
      units: { expected: 4, done: 4, partial: 0, dead: 0 },
      totals: { facts: { definitions: 8 } },
    })
  })

  test('comes out the same whatever the order of the entries and however often they are repeated', () => {
    const parts = [
      reply('one', 0, 'x', { seq: 0, last: false }),
      reply('one', 0, 'x', { seq: 1, last: false }),
      reply('one', 0, 'x', { seq: 2 }),
    ]
    const entries = [
      ...start(),
      ...parts,
      ...all.slice(1),
      dead('flow.definitions', 'two', 1),
      reply('two', 0, 'later'),
    ]
    const expected = statusAfter(entries)
    expect(expected).toMatchObject({
      state: 'partial',
      units: { done: 3, partial: 1 },
      totals: { facts: { definitions: 12 } },
    })
    fc.assert(
      fc.property(
        fc.shuffledSubarray(entries, { minLength: entries.length }),
        fc.array(fc.constantFrom(...entries), { maxLength: 10 }),
        (shuffled, repeats) => {
          expect(statusAfter([...shuffled, ...repeats])).toEqual(expected)
        },
      ),
    )
  })

  test('without a chunk has failed, and so has one that could not be read', () => {
    expect(statusAfter(start(0))).toMatchObject({ state: 'failed', error: { type: 'empty_document' } })
    expect(
      statusAfter([entry({ kind: 'failed', error: { type: 'document_not_utf8', message: 'not UTF-8' } })]),
    ).toMatchObject({ state: 'failed', error: { message: 'not UTF-8' } })
  })

  test('has failed when every unit is dead, and is partial when some are', () => {
    const deaths = [0, 1].flatMap((index) =>
      units.map((unit) => dead('flow.chunk', unit, index, `${unit}${index}`)),
    )
    expect(statusAfter([...start(), ...deaths])).toMatchObject({ state: 'failed', units: { dead: 4 } })
    expect(statusAfter([...start(), ...deaths.slice(1), all[0]!])).toMatchObject({
      state: 'partial',
      units: { done: 1, dead: 3 },
      incomplete: { unexpected: 3 },
    })
  })
})

describe('a unit', () => {
  test('counts the first complete run only', () => {
    const second = reply('one', 0, 'again', { facts: { definitions: 9 } })
    expect(statusAfter([...start(), ...all, second]).totals.facts).toEqual({ definitions: 8 })
    expect(statusAfter([...start(), second, ...all]).totals.facts).toEqual({ definitions: 15 })
  })

  test('is not done by parts of two runs together', () => {
    const halves = [
      reply('one', 0, 'a', { seq: 0, last: false }),
      reply('one', 0, 'b', { seq: 1, last: true }),
    ]
    expect(statusAfter([...start(), ...halves]).units.done).toBe(0)
  })

  test('that was cut off is partial, and done by a later whole run, whose counts replace the others', () => {
    const cut = reply('one', 0, 'cut', { incomplete: 'truncated', facts: { definitions: 1 } })
    expect(statusAfter([...start(1), cut, reply('two', 0, 'x')])).toMatchObject({
      state: 'partial',
      incomplete: { truncated: 1 },
      totals: { facts: { definitions: 3 } },
    })
    expect(statusAfter([...start(1), cut, reply('two', 0, 'x'), reply('one', 0, 'whole')])).toMatchObject({
      state: 'done',
      totals: { facts: { definitions: 4 } },
    })
  })

  const refused = (run: string, more: Partial<Progress> = {}) =>
    reply('one', 0, run, { facts: {}, rejected: { empty: 1 }, ...more })

  test('whose items were all rejected, over all parts of the run, is partial, and done by a run that gives facts', () => {
    const parts = [
      refused('a', { seq: 0, last: false }),
      refused('a', { seq: 2, rejected: { schema: 2 } }),
      refused('a', { seq: 1, last: false, rejected: {} }),
    ]
    const seen = [...start(1), reply('two', 0, 'x'), ...parts]
    expect(statusAfter(seen.slice(0, -1))).toMatchObject({ state: 'running' })
    for (const order of [seen, seen.toReversed(), [...seen, ...parts]])
      expect(statusAfter(order)).toMatchObject({
        state: 'partial',
        units: { done: 1, partial: 1 },
        incomplete: { no_facts: 1 },
        totals: { rejected: { empty: 1, schema: 2 } },
      })
    expect(statusAfter([...seen, reply('one', 0, 'b')])).toMatchObject({
      state: 'done',
      totals: { rejected: {} },
    })
    const one = reply('one', 0, 'a', { seq: 1, last: false })
    expect(statusAfter([...start(1), reply('two', 0, 'x'), one, parts[0]!, parts[1]!]).state).toBe('done')
  })

  test('whose items were all rejected keeps the first reason, and nothing at all is done', () => {
    const statusWith = (more: Partial<Progress>) =>
      statusAfter([...start(1), reply('two', 0, 'x'), refused('a', more)])
    expect(statusWith({ incomplete: 'truncated' }).incomplete).toEqual({ truncated: 1 })
    expect(statusWith({ rejected: {} })).toMatchObject({ state: 'done', incomplete: {} })
  })

  test('whose request died is dead, and done by a run after its replay', () => {
    const before = [
      ...start(1),
      dead('request.prompt', 'one', 0),
      reply('one', 0, 'e', { error: { type: 'prompt_unknown', message: 'no' } }),
      reply('two', 0, 'x'),
    ]
    expect(statusAfter(before)).toMatchObject({ state: 'partial', units: { done: 1, dead: 1 } })
    expect(statusAfter([...before, replayed(0), reply('one', 0, 'y')])).toMatchObject({
      state: 'done',
      units: { done: 2, dead: 0 },
    })
  })

  test('a part of whose facts died is partial whether they died before its end or after, until they are replayed', () => {
    const death = dead('flow.definitions', 'one', 0)
    const replies = [reply('one', 0, 'x'), reply('two', 0, 'y')]
    for (const order of [
      [death, ...replies],
      [...replies, death],
    ]) {
      expect(statusAfter([...start(1), ...order])).toMatchObject({
        state: 'partial',
        units: { done: 1, partial: 1 },
        totals: { facts: { definitions: 4 } },
      })
      expect(statusAfter([...start(1), ...order, replayed(0)])).toMatchObject({
        state: 'done',
        units: { done: 2, partial: 0 },
        totals: { facts: { definitions: 4 } },
      })
    }
  })

  test('counts the tokens of runs that failed, each once, beside those of the run that counts', () => {
    const usage = (reason: string, promptTokens: number) => {
      const spent = [{ reason, model: 'm', calls: 1, promptTokens, completionTokens: 1 }]
      return { usage: { promptTokens: null, completionTokens: null, totalTokens: null, spent } }
    }
    const spent = (run: string) =>
      entry(
        { kind: 'spent', unit: 'one', run: { id: run, startedAt: 1 }, ...usage('first', 100) },
        { chunkId: 'urn:d/0/0' },
      )
    const whole = reply('one', 0, 'c', usage('continuation', 10))
    const entries = [...start(), spent('a'), spent('b'), spent('a'), whole, spent('b')]
    expect(statusAfter(entries).totals).toMatchObject({
      promptTokens: 210,
      completionTokens: 3,
      unreported: 0,
      calls: { first: 2, continuation: 1 },
      models: { m: { promptTokens: 210 } },
    })
    expect(statusAfter([...start(), spent('a')])).toMatchObject({
      state: 'running',
      totals: { promptTokens: 100 },
    })
  })

  test('is not known of dead triples: then every unit of the chunk may lack something', () => {
    expect(statusAfter([...start(), ...all, dead('flow.triples', 'emit-triples', 0)])).toMatchObject({
      state: 'partial',
      units: { done: 2, partial: 2 },
    })
    expect(statusAfter([dead('flow.triples', null, 0), ...start(), ...all])).toMatchObject({
      units: { done: 2, partial: 2 },
    })
  })
})

describe('a document that is loaded again', () => {
  const at = (time: number, entries: readonly Message<'Progress'>[]) =>
    entries.map((each) => ({ ...each, time }))

  test('is not done by what was done of another cut, or for another set of units', () => {
    const again = [
      entry({ kind: 'document', parts: 1, title: 'T' }),
      entry({ kind: 'part', part: 0, chunks: 1, units: ['one', 'new'] }),
    ]
    expect(statusAfter([...start(), ...all, ...again])).toMatchObject({
      state: 'running',
      chunks: 1,
      units: { expected: 2, done: 0 },
    })
    const replies = [reply('one', 0, 'x'), reply('new', 0, 'y')]
    expect(statusAfter([...start(), ...all, ...again, ...replies])).toMatchObject({
      state: 'done',
      units: { expected: 2, done: 2 },
    })
  })

  test('is as before when it was cut as before', () => {
    expect(statusAfter([...start(), ...all, ...start()])).toMatchObject({ state: 'done', units: { done: 4 } })
  })

  test('counts only the parts that it has now', () => {
    const two = [entry({ kind: 'document', parts: 2 }), entry({ kind: 'part', part: 1, chunks: 1, units })]
    expect(statusAfter([...two, ...at(1, start()), ...all])).toMatchObject({ state: 'done', chunks: 2 })
  })

  test('has failed no longer when it can be read now, nor when a part that had died is there', () => {
    const failed = entry(
      { kind: 'failed', error: { type: 'document_unreadable', message: 'no' } },
      { time: 5 },
    )
    const died = entry({ kind: 'dead', part: 0, topic: 'gm.flow.document.w.f' }, { time: 5 })
    expect(statusAfter([failed]).state).toBe('failed')
    expect(statusAfter([failed, ...start(), ...all]).state).toBe('done')
    expect(statusAfter([...start(), died, ...all]).state).toBe('failed')
    expect(statusAfter([...start(), died, ...at(9, start()), ...all]).state).toBe('done')
    expect(statusAfter([...at(9, start()), ...all, died]).state, 'reported late').toBe('failed')
  })
})

describe('entries of units that are not expected', () => {
  test('neither counts nor spoils a document: units that were switched on later', () => {
    const extra = [reply('late', 0, 'x'), dead('flow.chunk', 'late', 1), dead('flow.definitions', 'late', 1)]
    expect(statusAfter([...start(), ...all, ...extra])).toEqual(statusAfter([...start(), ...all]))
    expect(statusAfter([...extra, ...start(), ...all])).toMatchObject({
      state: 'done',
      units: { done: 4, dead: 0 },
    })
  })
})

describe('a unit whose facts died', () => {
  const death = { ...dead('flow.definitions', 'one', 0), time: 10_000 }
  const entries = [...start(1), reply('one', 0, 'x'), reply('two', 0, 'y'), death]
  const again = (run: string, time: number, more: Partial<Progress> = {}) => ({
    ...reply('one', 0, run, more),
    time,
  })

  test('is done by a run that was whole well after that, the same or another, and counted once', () => {
    for (const run of ['x', 'z'])
      expect(statusAfter([...entries, again(run, 20_000)])).toMatchObject({
        state: 'done',
        totals: { facts: { definitions: 4 } },
      })
  })

  test('is not done by a run that was under way, or is cut off, or not whole', () => {
    for (const late of [
      again('z', 10_001),
      again('z', 20_000, { incomplete: 'truncated' }),
      again('z', 20_000, { facts: {}, rejected: { empty: 1 } }),
      again('z', 20_000, { seq: 1 }),
    ])
      expect(statusAfter([...entries, late])).toMatchObject({ state: 'partial', units: { partial: 1 } })
  })

  test('stays done after its replay, however often the old death is reported', () => {
    expect(statusAfter([...entries, replayed(0), death])).toMatchObject({ state: 'done' })
    expect(
      statusAfter([...start(1), replayed(0), death, reply('one', 0, 'x'), reply('two', 0, 'y')]).state,
    ).toBe('done')
    const second = dead('flow.definitions', 'one', 0, 'the replay')
    expect(statusAfter([...entries, replayed(0), second]).state).toBe('partial')
  })
})

describe('the state of a document', () => {
  const again = (unit: string, index: number, more: Partial<Progress>) => ({
    ...reply(unit, index, 'again', more),
    time: 20_000,
  })
  const life = [
    ...start(3),
    ...all,
    reply('one', 2, 'half', { seq: 0, last: false }),
    reply('two', 2, 'bare', { seq: 0, last: false, facts: {}, rejected: { empty: 1 } }),
    reply('two', 2, 'bare', { seq: 1, facts: {} }),
    reply('two', 2, 'cut', {
      incomplete: 'truncated',
      model: 'm',
      usage: { promptTokens: 5, completionTokens: 7, totalTokens: 12, spent: [] },
    }),
    dead('flow.definitions', 'two', 1),
    again('two', 1, { seq: 0, last: false, facts: {}, rejected: { empty: 1 } }),
    again('two', 1, { seq: 1, facts: {} }),
    entry(
      {
        kind: 'spent',
        unit: 'one',
        run: { id: 'lost', startedAt: 1 },
        usage: { promptTokens: 3, completionTokens: 4, totalTokens: null, spent: [] },
      },
      { chunkId: 'urn:d/0/2' },
    ),
    dead('flow.chunk', 'one', 2, 'chunk-dead'),
    replayed(1),
    reply('one', 2, 'half', { seq: 1 }),
    reply('two', 2, 'whole'),
    entry({ kind: 'part', part: 1, chunks: 1, units: ['three'] }),
    dead('flow.triples', null, 0, 'triples-dead'),
    entry({ kind: 'dead', unit: null, topic: 'gm.flow.triples.w.f' }, { chunkId: 'urn:d/2/0' }),
  ]

  test('saved and restored after any entry goes on to the same end', () => {
    const whole = statusAfter(life)
    for (let cut = 1; cut <= life.length; cut++) {
      const before = createProgressAggregate()
      for (const each of life.slice(0, cut)) before.add(each)
      const after = createProgressAggregate()
      after.restore(before.save('urn:d')!)
      expect(after.status('urn:d')).toEqual(before.status('urn:d'))
      // As after a crash: what was not settled comes again, from some way back.
      for (const each of life.slice(Math.max(0, cut - 4))) after.add(each)
      expect(after.status('urn:d'), `cut after ${cut}`).toEqual(whole)
    }
  })

  test('of the version before, which knows no facts of runs that began again, is gone on from', () => {
    const before = createProgressAggregate()
    const seen = [...start(1), reply('one', 0, 'x'), reply('two', 0, 'y'), dead('flow.definitions', 'two', 0)]
    for (const each of [...seen, again('two', 0, { seq: 0, last: false })]) before.add(each)
    const state = inflateRawSync(before.save('urn:d')!)
    const end = 4 + state.readUInt32LE(0)
    const header = JSON.parse(state.toString('utf8', 4, end)) as { open: [string, ...unknown[]][] }
    const [, ...since] = header.open[0]!
    expect(since.at(-1)).toEqual([['again', [0], null, expect.anything()]])
    header.open[0]![7] = [['again', [0], null]]
    const text = Buffer.from(JSON.stringify(header))
    const length = Buffer.alloc(4)
    length.writeUInt32LE(text.length)
    const after = createProgressAggregate()
    after.restore(deflateRawSync(Buffer.concat([length, text, state.subarray(end)])))
    expect(after.status('urn:d')!.state).toBe('partial')
    after.add(again('two', 0, { seq: 1 }))
    expect(after.status('urn:d')).toMatchObject({ state: 'done', units: { done: 2 } })
  })

  test('is refused when it is no state', () => {
    expect(() => createProgressAggregate().restore(Buffer.from('nothing'))).toThrow(/can’t be read/)
  })
})

test('names that mean a prototype are counted like any other', () => {
  const odd = JSON.parse('{"__proto__": 2, "constructor": 1}') as Record<string, number>
  const said = reply('one', 0, 'x', { model: '__proto__', facts: odd, rejected: odd })
  const { totals } = statusAfter([...start(1), said])
  expect(Object.entries(totals.facts)).toEqual(Object.entries(odd))
  expect(Object.keys(totals.models)).toEqual(['__proto__'])
  expect(({} as Record<string, unknown>)['unreported']).toBeUndefined()
})

test('a document of which very much goes wrong is counted right, in a state that fits a message', () => {
  const chunks = 20_000
  let aggregate = createProgressAggregate()
  let largest = 0
  const tellAll = (entries: Iterable<Message<'Progress'>>) => {
    let added = 0
    for (const each of entries) {
      aggregate.add(each)
      if (++added % 4000 !== 0) continue
      const state = aggregate.save('urn:d')!
      largest = Math.max(largest, state.length)
      aggregate = createProgressAggregate()
      aggregate.restore(state)
    }
  }
  const usage = { promptTokens: 812, completionTokens: 345, totalTokens: null } as never
  function* life() {
    yield* start(chunks)
    for (let index = 0; index < chunks; index++) {
      const said = { rejected: { schema: index % 7 }, usage, model: 'm' }
      yield reply('one', index, crypto.randomUUID(), { incomplete: 'truncated', ...said })
      yield dead('flow.chunk', 'two', index, crypto.randomUUID().replaceAll('-', ''))
    }
  }
  tellAll(life())
  expect(aggregate.status('urn:d')).toMatchObject({
    state: 'partial',
    units: { done: 0, partial: chunks, dead: chunks },
    incomplete: { truncated: chunks, unexpected: chunks },
    totals: { facts: { definitions: 2 * chunks } },
  })
  expect(largest).toBeLessThan(500 * 1024)

  function* repair() {
    for (let index = 0; index < chunks; index++) {
      yield replayed(index, 'long forgotten')
      yield reply('two', index, 'after')
      yield reply('one', index, 'whole')
    }
  }
  tellAll(repair())
  expect(aggregate.status('urn:d')).toMatchObject({
    state: 'done',
    units: { done: 2 * chunks },
    incomplete: {},
  })
}, 60_000)

test('100,000 chunks of six units are counted, in a state of less than 200 KiB at any time', () => {
  const aggregate = createProgressAggregate()
  const six = ['a', 'b', 'c', 'd', 'e', 'f']
  const parts = 400
  aggregate.add(entry({ kind: 'document', parts }))
  for (let part = 0; part < parts; part++)
    aggregate.add(entry({ kind: 'part', part, chunks: 250, units: six }))
  // Every other chunk first: the state is largest when what is done and what is not are mixed.
  for (const first of [0, 1]) {
    for (let part = 0; part < parts; part++)
      for (let index = 0; index < 250; index++)
        if ((part * 7919 + index * 104729) % 127 < 63 === (first === 0))
          for (const unit of six) aggregate.add({ ...reply(unit, 0, 'r'), chunkId: `urn:d/${part}/${index}` })
    expect(aggregate.save('urn:d')!.length).toBeLessThan(200 * 1024)
  }
  expect(aggregate.status('urn:d')).toMatchObject({ state: 'done', units: { done: 600_000 } })
}, 60_000)
