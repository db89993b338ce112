import { expect, test } from 'vitest'
import { type StatusView, statusLines, statusRow } from '../../src/cli/status-view.ts'

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
