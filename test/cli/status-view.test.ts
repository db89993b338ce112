import { expect, test } from 'vitest'
import { type StatusView, statusLines, statusRow, viewStatus } from '../../src/cli/status-view.ts'
import type { Message } from '../../src/messages/envelope.ts'
import type { Progress, Status } from '../../src/messages/generated.ts'
import { createProgressAggregate } from '../../src/progress/progress-aggregate.ts'

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
  updatedAt: '2026-01-01T00:00:00.000Z',
})

test('a document with ungrounded facts says so', () => {
  const lines = statusLines({ ...view('x'), facts: { topics: 3 }, ungrounded: 2 })
  expect(lines.find((line) => line.startsWith('facts'))).toBe('facts      3 (3 topics), 2 of them ungrounded')
})

test('a long title is shortened in the table, an id never is', () => {
  expect(statusRow(view('m'.repeat(40)))).toMatchObject({ document: 'm'.repeat(40), id })
  expect(statusRow(view('m'.repeat(41)))).toMatchObject({ document: `${'m'.repeat(39)}…`, id })
  expect(statusRow(view(''))).toMatchObject({ document: id, id })
})

test('a title is shortened between characters', () => {
  expect(statusRow(view('𝄞'.repeat(41)))['document']).toBe(`${'𝄞'.repeat(39)}…`)
})

test('the status of one document has its whole title', () => {
  expect(statusLines(view('m'.repeat(200)))[0]).toBe(`document   ${'m'.repeat(200)} ${id}`)
})

test('a document whose chunks nobody has announced is running, then idle, and nobody knows how many units it has', () => {
  const documentId = 'urn:tg:doc'
  const aggregate = createProgressAggregate()
  const viewed = (ageMs: number) => {
    const { state, chunks, units, title } = aggregate.status(documentId)!
    const counts = { facts: {}, rejected: {}, incomplete: {}, calls: {}, tokens: {}, lost: [], waiting: [] }
    const payload = { title, state, chunks, ...units, ...counts, ledger: aggregate.save(documentId)! }
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
  expect(statusLines(viewed(0)).join('\n')).toContain('1 of an unknown number done')
})
