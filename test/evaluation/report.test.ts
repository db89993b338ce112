import { describe, expect, test } from 'vitest'
import type { Kind } from '../../src/evaluation/facts.ts'
import {
  compareReports,
  createReport,
  type EvaluationReport,
  type ReportInput,
} from '../../src/evaluation/report.ts'
import { htmlOf, viewOf } from '../../src/evaluation/report-view.ts'
import { readReport } from '../../src/evaluation/saved-report.ts'
import { type Counts, type DocumentScore, noCounts } from '../../src/evaluation/score.ts'

const score = (id: string, counts: Partial<Record<Kind, Partial<Counts>>>): DocumentScore => ({
  id,
  counts: Object.fromEntries(
    Object.entries(counts).map(([kind, some]) => [kind, { ...noCounts(), ...some }]),
  ),
})

function report(scores: readonly DocumentScore[], more: Partial<ReportInput> = {}): EvaluationReport {
  return createReport({
    ...{ model: 'small', prompts: [], gold: 'digest', documents: scores.length, partial: 0, failed: 0 },
    notExtracted: [],
    ...{
      rejected: {},
      calls: { first: 2 },
      promptTokens: 100,
      completionTokens: 20,
      unreported: 0,
      cost: null,
    },
    scores,
    ...more,
  })
}

const some = [
  score('a', {
    triples: { gold: 4, found: 5, matched: 3, hallucinated: 2, strangeSubjects: 1, strangeObjects: 2 },
    topics: { gold: 1, found: 1, matched: 1 },
  }),
  score('b', { triples: { gold: 2, found: 1, matched: 1, looked: 1, ungrounded: 1 } }),
]

describe('a report', () => {
  test('adds up documents, by kind and overall', () => {
    const { kinds, overall, scored } = report(some)
    expect(scored).toBe(2)
    expect(kinds.map(({ kind }) => kind)).toEqual(['topics', 'triples'])
    // 4 of 6 found, 4 of 6 gold; with the topic 5 of 7.
    expect(kinds[1]).toMatchObject({ gold: 6, found: 6, matched: 4, f1: { value: 4 / 6 } })
    expect(overall).toMatchObject({ gold: 7, found: 7, matched: 5, precision: { value: 5 / 7 } })
    expect(kinds[1]?.shares).toEqual({
      // Each draw has one of the documents twice, or both.
      hallucinated: { value: 2 / 6, low: 0, high: 2 / 5 },
      ungrounded: { value: 1, low: 1, high: 1 },
    })
    expect(kinds[0]?.shares).toMatchObject({ hallucinated: { value: 0 }, ungrounded: { value: null } })
  })

  test('gives the shares of hallucinated subjects, relations and objects', () => {
    const { hallucinated } = report(some, { rejected: { unknown_property: 1, unknown_class: 1, domain: 5 } })
    // 1 and 2 of the 6 triples; 2 items outside of the ontology, besides the 6 triples.
    expect(hallucinated).toEqual({ subject: 1 / 6, relation: 2 / 8, object: 2 / 6 })
  })

  test('without documents has no numbers, and is shown all the same', () => {
    const empty = report([])
    expect(empty.overall).toMatchObject({ f1: { value: null, low: null, high: null } })
    expect(viewOf(empty, undefined).tables[0]?.rows).toEqual([
      expect.objectContaining({ kind: 'overall', f1: '-', hallucinated: '-', ungrounded: '-' }),
    ])
  })

  test('says what was not finished, failed or not scored, and what the cost is', () => {
    const given = { documents: 5, partial: 1, failed: 1, notExtracted: ['rows' as const], cost: 0.1 }
    const lines = new Map(viewOf(report(some, given), undefined).lines)
    expect(lines.get('documents')).toBe('2 scored, 3 not finished, 1 partial, 1 failed')
    expect(lines.get('not scored')).toBe('rows: no extractor of this run gives them')
    expect(lines.get('cost')).toBe('0.1000')
    expect(new Map(viewOf(report(some), undefined).lines).get('cost')).toBeUndefined()
  })

  test('in HTML is one file, with every text escaped', () => {
    const evil = `<script>"x" & 'y'</script>`
    const named = report(some, { model: evil, rejected: { [evil]: 1 }, damageOf: () => evil })
    const html = htmlOf(viewOf(named, compareReports({ ...named, model: evil }, named)))
    expect(html).not.toContain('<script')
    expect(html.match(/&lt;script&gt;&quot;x&quot; &amp; &#39;y&#39;/g)?.length).toBeGreaterThanOrEqual(4)
    expect(html).not.toMatch(/src=|href=|@import|url\(/)
    expect(html).toContain('<td>triples</td><td>6</td><td>6</td><td>4</td><td>0.667 (')
  })
})

describe('a comparison', () => {
  const run = (matched: (n: number) => number, model: string, count = 40) =>
    report(
      Array.from({ length: count }, (_, n) =>
        score(`d${n}`, { triples: { gold: 4, found: 4, matched: matched(n) } }),
      ),
      { model },
    )

  test('has the difference of F1 with an interval from the same draws for both', () => {
    // Every document gains one fact: the documents differ a lot, but the difference is certain.
    const one = run((n) => n % 4, 'one')
    const other = run((n) => (n % 4) + 1, 'other')
    const { rows, documents, before } = compareReports(one, other)
    expect({ documents, before }).toEqual({
      documents: 40,
      before: { model: 'one', prompts: [], cost: null },
    })
    expect(rows.map(({ kind, measure }) => `${kind} ${measure}`)).toEqual(
      ['triples', 'overall'].flatMap((kind) => [
        ...[`${kind} precision`, `${kind} recall`, `${kind} f1`],
        ...[`${kind} hallucinated`, `${kind} ungrounded`],
      ]),
    )
    expect(rows[2]).toMatchObject({ measure: 'f1', before: 0.375, after: 0.625 })
    expect(rows[2]?.difference.value).toBeCloseTo(0.25, 10)
    expect(rows[2]?.difference.low).toBeCloseTo(0.25, 10)
    expect(rows[2]?.difference.high).toBeCloseTo(0.25, 10)
    expect(one.overall.f1.high! - one.overall.f1.low!).toBeGreaterThan(0.1)
  })

  test('with itself is 0, and of noise contains 0', () => {
    const one = run((n) => n % 4, 'one')
    expect(compareReports(one, one).rows.findLast(({ measure }) => measure === 'f1')?.difference).toEqual({
      value: 0,
      low: 0,
      high: 0,
    })
    const { low, high } = compareReports(
      one,
      run((n) => (n * 7 + 1) % 4, 'noise'),
    ).rows.findLast(({ measure }) => measure === 'f1')!.difference
    expect(low).toBeLessThan(0)
    expect(high).toBeGreaterThan(0)
  })

  test('is about the documents and kinds that both have', () => {
    const one = run((n) => n % 4, 'one', 10)
    const other = report([...run(() => 4, 'other', 40).scores, score('x', { rows: { gold: 1 } })])
    const { rows, documents } = compareReports(one, other)
    expect(documents).toBe(10)
    expect(new Set(rows.map(({ kind }) => kind))).toEqual(new Set(['triples', 'overall']))
    expect(rows.findLast(({ measure }) => measure === 'f1')).toMatchObject({ after: 1 })
    expect(compareReports(report([]), other).rows).toEqual(
      ['precision', 'recall', 'f1', 'hallucinated', 'ungrounded'].map((measure) => ({
        ...{ kind: 'overall', measure, before: null, after: null },
        difference: { value: null, low: null, high: null },
      })),
    )
  })

  test('tells precision from recall, and names models, prompts and costs', () => {
    const counted = (found: number, matched: number) => [score('a', { topics: { gold: 4, found, matched } })]
    const one = report(counted(2, 2), { prompts: ['mine', 'more.yaml'], cost: 0.25 })
    const other = report(counted(8, 4), { cost: 1 })
    const { tables, lines } = viewOf(other, compareReports(one, other))
    const [, { title, rows }] = tables as [unknown, (typeof tables)[number]]
    expect(title).toMatch(/^small with mine, more\.yaml \(before\) and small \(after\) in the 1 documents/)
    expect(rows.slice(0, 3)).toEqual([
      {
        ...rows[0],
        measure: 'precision',
        before: '1.000',
        after: '0.500',
        difference: '-0.500 (-0.500 to -0.500)',
      },
      {
        ...rows[1],
        measure: 'recall',
        before: '0.500',
        after: '1.000',
        difference: '0.500 (0.500 to 0.500)',
      },
      { ...rows[2], measure: 'f1', before: '0.667', after: '0.667', difference: '0.000 (0.000 to 0.000)' },
    ])
    expect(new Map(lines).get('cost')).toBe('1.0000 (before: 0.2500)')
    expect(new Map(lines).get('prompts')).toBe('built-in')
  })
})

describe('a saved report', () => {
  const text = JSON.stringify(report(some))
  test('is read again', () => expect(readReport(text, 'a.json', 'digest')).toEqual(report(some)))

  test.each([
    ['not JSON', '{', /^a\.json: it is not JSON/],
    ['something else', '{"format":1}', /^a\.json: it is not a report/],
    ['about other gold facts', text.replace('"digest"', '"other"'), /other gold facts/],
    ['damaged', text.replace('"matched":3', '"matched":"3"'), /its scores are damaged/],
    ['without its kinds', text.replace('"kinds":', '"kind":'), /it is damaged/],
    ['without its prompts', text.replace('"prompts":', '"prompt":'), /it is damaged/],
  ])('is refused when it is %s', (_, wrong, message) => {
    expect(() => readReport(wrong, 'a.json', 'digest')).toThrow(message)
    expect(() => readReport(wrong, 'a.json', 'digest')).toThrow(
      expect.objectContaining({ code: 'report_unfit' }),
    )
  })
})
