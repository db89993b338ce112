import { describe, expect, test } from 'vitest'
import { findDocument, shortId } from '../../src/cli/document-names.ts'
import { type StatusView, statusLines, statusRow, statusRows, viewStatus } from '../../src/cli/status-view.ts'
import { idOfPath } from '../../src/documents/identity.ts'
import { readPrices } from '../../src/llm/limits/prices.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Progress, Status } from '../../src/messages/generated.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'

const noPrices = readPrices([])
const id = `urn:graphmill:document:${'0'.repeat(32)}`
const view = (title: string): StatusView => ({
  documentId: id,
  title,
  state: 'done',
  error: null,
  chunks: 1,
  units: { expected: 3, done: 3, partial: 0, dead: 0 },
  facts: {},
  rejected: {},
  incomplete: {},
  truncated: 0,
  continuations: 0,
  repaired: 0,
  duplicates: 0,
  ungrounded: 0,
  calls: {},
  tokens: {},
  cost: null,
  waitsFor: [],
  collection: '',
  versions: [],
  toRetract: null,
  updatedAt: '2026-01-01T00:00:00.000Z',
})

test('a document with ungrounded facts says so', () => {
  const lines = statusLines({ ...view('x'), facts: { topics: 3 }, ungrounded: 2 }, noPrices)
  expect(lines.find((line) => line.startsWith('facts'))).toBe('facts      3 (3 topics), 2 of them ungrounded')
})

describe('the table', () => {
  const widthOf = (rows: Record<string, unknown>[]) => {
    const [first = {}] = rows
    const widths = Object.keys(first).map((name) =>
      Math.max(name.length, ...rows.map((row) => String(row[name]).length)),
    )
    return widths.reduce((sum, width) => sum + width + 2, -2)
  }

  test.each([
    ['long titles', view('m'.repeat(300))],
    [
      'large numbers',
      { ...view('m'.repeat(300)), units: { expected: 12e6, done: 11e6, partial: 1e6, dead: 1e5 } },
    ],
    ['long ids', { ...view('m'.repeat(300)), documentId: `https://example.org/${'x'.repeat(200)}` }],
  ])('fits 100 columns with %s', (_, long) => {
    const rows = statusRows([view('notes.md'), long, { ...view(''), state: 'running' }])
    expect(widthOf(rows)).toBeLessThanOrEqual(100)
    expect(rows[0]).toMatchObject({ document: 'notes.md', id: '0'.repeat(12) })
    expect(rows[1]!['document']).toMatch(/^m{12,}…$/)
  })

  test('counts a wide character as two columns, and does not cut within one', () => {
    const [row] = statusRows([view('磨'.repeat(100))])
    expect(row!['document']).toMatch(/^磨{10,30}…$/)
    expect(statusRows([view('𝄞'.repeat(200))])[0]!['document']).toMatch(/^𝄞+…$/u)
  })

  test('has one line a document, whatever its title holds', () => {
    expect(statusRows([view('a\nb\u001b[31m')])[0]!['document']).toBe('a b [31m')
  })
})

test('a document is found by its id, its title or a short id', () => {
  const own = (hex: string, title: string) => ({ documentId: `urn:graphmill:document:${hex}`, title })
  const [one, other] = [own(`abcd${'0'.repeat(28)}`, 'notes.md'), own(`abce${'0'.repeat(27)}1`, 'notes.md')]
  const foreign = { documentId: 'https://example.org/documents/annual-report', title: 'abcd' }
  const all = [one, other, foreign]
  for (const { documentId } of all) {
    expect(findDocument(documentId, all)?.documentId).toBe(documentId)
    expect(findDocument(shortId(documentId), all)?.documentId).toBe(documentId)
  }
  expect(findDocument('abcd', all)).toBe(foreign) // a title comes first
  expect(findDocument('abcd0', all)).toBe(one)
  expect(findDocument('annual-report', all)).toBe(foreign)
  expect(findDocument('abc', all)).toBeUndefined()
  expect(findDocument('nothing', all)).toBeUndefined()
  expect(() => findDocument('notes.md', all)).toThrow(
    /2 documents have the title notes.md: urn:.*abcd.*, urn:/,
  )
  expect(() => findDocument('0000', [one, own(`ffff${'0'.repeat(28)}`, '')])).toThrow(
    'begins or ends with 0000',
  )
})

test('the status of one document has its whole title and id, in lines of 100 columns', () => {
  const waitsFor = [`${'word '.repeat(60)}end`]
  const lines = statusLines({ ...view('word '.repeat(40).trim()), waitsFor }, noPrices)
    .join('\n')
    .split('\n')
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100)
  expect(lines.join(' ').match(/word/g)).toHaveLength(100)
  expect(lines).toContain(`id         ${id}`)
})

test('a document is found by its file, below its folder or the base', () => {
  const documentId = idOfPath('docs/notes.md', 'docs')
  const documents = [{ documentId, title: 'Notes' }]
  expect(findDocument('docs/notes.md', documents)).toBe(documents[0])
  expect(findDocument('there/docs/notes.md', documents, 'there/docs')).toBe(documents[0])
  expect(findDocument('docs/notes.md', documents, '.')).toBeUndefined()
  expect(findDocument('other.md', documents)).toBeUndefined()
})

describe('the versions of a document', () => {
  const [one, two] = ['1'.repeat(32), '2'.repeat(32)]
  const own = { facts: {}, rejected: {}, incomplete: {}, calls: {}, tokens: {}, collection: 'hr' }
  const viewed = (more: Partial<Status>) => {
    const payload = { ...own, title: 'x', state: 'running', versions: [], notWithdrawn: null, ...more }
    const message = { documentId: id, time: 1, payload } as unknown as Message<'Status'>
    return viewStatus(message, noPrices, [])
  }
  const pending = {
    currentVersion: one,
    currentTime: 1000,
    versions: [
      { version: two, versionTime: 2000, state: 'pending' },
      { version: one, versionTime: 1000, state: 'current' },
    ],
  }

  test('are shown, with what is still to be retracted', () => {
    const view = viewed(pending)
    expect(view).toMatchObject({ collection: 'hr', versions: [{ state: 'pending' }, { state: 'current' }] })
    const lines = statusLines(view, noPrices)
    expect(lines.filter((line) => /^(version|to retract)/.test(line))).toEqual([
      'version    22222222 of 1970-01-01T00:00:02.000Z: pending',
      'version    11111111 of 1970-01-01T00:00:01.000Z: current',
      'to retract what only 11111111 states, when the newest version is done',
    ])
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(100)
  })

  test.each([
    [
      'a new version that failed',
      { ...pending, state: 'partial' },
      /11111111 states: it stays, .* is partial/,
    ],
    ['nothing', { ...pending, versions: [{ ...pending.versions[0]!, state: 'current' }] }, null],
    ['the first version', { versions: [pending.versions[0]!], currentTime: 0, currentVersion: '' }, null],
    [
      'what a store cannot withdraw',
      { notWithdrawn: { type: 'store_cannot_withdraw', message: 'It stays.' } },
      /older versions stated. It stays. \[store_cannot_withdraw\]/,
    ],
  ])('what is to be retracted with %s', (_, more, expected) => {
    const { toRetract } = viewed(more)
    if (expected) expect(toRetract).toMatch(expected)
    else expect(toRetract).toBeNull()
  })
})

test('the cost is shown only if there are prices', () => {
  const spent = { ...view('x'), cost: 0.5 }
  expect(statusLines(spent, noPrices).join('\n')).not.toContain('cost')
  expect(statusLines(spent, readPrices(['m=1/2'])).join('\n')).toContain('cost       0.5000')
  expect(statusLines(view('x'), readPrices(['m=1/2'])).join('\n')).toContain('cost       unknown')
})

test('a document whose chunks nobody has announced is running, then idle, and nobody knows how many units it has', () => {
  const documentId = 'urn:tg:doc'
  const aggregate = createProgressAggregate()
  const viewed = (ageMs: number) => {
    const { state, chunks, units, title } = aggregate.status(documentId)!
    const counts = { facts: {}, rejected: {}, incomplete: {}, calls: {}, tokens: {}, lost: [], waiting: [] }
    const blank = { versions: [], notWithdrawn: null, ...counts }
    const payload = { title, state, chunks, ...units, ...blank, ledger: aggregate.save(documentId)! }
    const message = { documentId, time: Date.now() - ageMs, payload: payload as unknown as Status }
    return viewStatus(message as Message<'Status'>, new Map() as never, [])
  }
  const add = (payload: Partial<Progress>) =>
    aggregate.add({ documentId, chunkId: 'urn:c', causationId: '', time: 1, payload } as Message<'Progress'>)
  add({ kind: 'chunk', units: ['extract-topics'] })
  expect(statusRow(viewed(0))).toMatchObject({ state: 'running', chunks: 1, done: '0/?' })
  expect(viewed(3_600_000).state).toBe('running') // a unit waits
  const counts = { facts: {}, rejected: {}, repaired: 0, duplicates: 0, ungrounded: 0, usage: null }
  add({
    kind: 'reply',
    unit: 'extract-topics',
    run: { id: 'r', startedAt: 1 },
    seq: 0,
    last: true,
    ...counts,
  })
  expect(viewed(0)).toMatchObject({ state: 'running', units: { expected: null, done: 1 } })
  expect(viewed(3_600_000).state).toBe('idle')
  expect(statusLines(viewed(0), noPrices).join('\n')).toContain('1 of an unknown number done')
})
