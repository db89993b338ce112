// The result of an evaluation as data: what `--format json` prints, what `--compare` reads, and what the other formats show.
import { bootstrap, type Estimate } from './bootstrap.ts'
import { type Kind, kinds } from './facts.ts'
import { type Counts, type DocumentScore, noCounts, ratio, ratiosOf, sumOfCounts } from './score.ts'

/** Marks the files that `--compare` can read. */
export const reportFormat = 'graphmill-eval-1'

/** What is known of a run besides its scores. */
export interface RunFacts {
  readonly model: string
  /** Files and folders of prompts, as they were named; empty when the built-in ones were used. */
  readonly prompts: readonly string[]
  /** A digest of the facts in the gold files. */
  readonly gold: string
  /** All documents of the gold files; those that were not finished are not scored. */
  readonly documents: number
  /** How many documents have a unit of work whose reply was incomplete or had no fact, and how many have one that failed. */
  readonly partial: number
  readonly failed: number
  /** Kinds in the gold files that no extractor of this run gives. */
  readonly notExtracted: readonly Kind[]
  /** Rejected items by reason. */
  readonly rejected: Readonly<Record<string, number>>
  /** Model calls by reason; `cached` ones cost nothing. */
  readonly calls: Readonly<Record<string, number>>
  readonly promptTokens: number
  readonly completionTokens: number
  /** Calls whose tokens the server did not report. */
  readonly unreported: number
  /** In the currency of the prices; null when a price or a count is not known. */
  readonly cost: number | null
}

export interface KindReport extends Counts {
  readonly kind: Kind | 'overall'
  readonly precision: Estimate
  readonly recall: Estimate
  readonly f1: Estimate
  /** Shares of the found facts, and of those that were looked for in their chunk. */
  readonly shares: { readonly hallucinated: Estimate; readonly ungrounded: Estimate }
}

export interface EvaluationReport extends RunFacts {
  readonly format: typeof reportFormat
  readonly scored: number
  readonly kinds: readonly KindReport[]
  readonly overall: KindReport
  /** Text2KGBench's three: subjects and objects that the text does not have, relations that the ontology does not have. */
  readonly hallucinated: {
    readonly subject: number | null
    readonly relation: number | null
    readonly object: number | null
  }
  /** F1 by the way in which replies were damaged; empty unless they were. */
  readonly damages: readonly {
    readonly damage: string
    readonly documents: number
    readonly f1: number | null
  }[]
  readonly scores: readonly DocumentScore[]
}

export interface ReportInput extends RunFacts {
  readonly scores: readonly DocumentScore[]
  /** How the replies about a document were damaged. Default: they were not. */
  readonly damageOf?: ((score: DocumentScore) => string) | undefined
}

const withSubject = ['definitions', 'relationships', 'entities', 'triples'] as const
const withObject = ['relationships', 'rows', 'triples'] as const
const ofOntology = ['entities', 'triples'] as const

/** The report of a run from the scores of its documents. Shares are from 0 to 1. */
export function createReport({ scores, damageOf, ...run }: ReportInput): EvaluationReport {
  const scored = kinds.filter((kind) => scores.some(({ counts }) => counts[kind]))
  const rows = reportsOf(scored, scores)
  const overall = rows.pop()!
  const unknownTerms = (run.rejected['unknown_class'] ?? 0) + (run.rejected['unknown_property'] ?? 0)
  const foundOf = (some: readonly (Kind | 'overall')[]) =>
    sumOfCounts(rows.filter(({ kind }) => some.includes(kind))).found
  return {
    format: reportFormat,
    ...run,
    scored: scores.length,
    kinds: rows,
    overall,
    hallucinated: {
      subject: ratio(overall.strangeSubjects, foundOf(withSubject)),
      relation: ratio(unknownTerms, foundOf(ofOntology) + unknownTerms),
      object: ratio(overall.strangeObjects, foundOf(withObject)),
    },
    damages: damageOf ? damageRows(scores, damageOf) : [],
    scores,
  }
}

/** The report of each kind, and that of all kinds together. */
function reportsOf(scored: readonly Kind[], scores: readonly DocumentScore[]): KindReport[] {
  const estimates = bootstrap(
    scores.map((score) => columnsOf(score, scored)),
    columns.length * (scored.length + 1),
    measuresOfColumns,
  )
  const sums = scored.map((kind) => sumOfCounts(scores.flatMap(({ counts }) => counts[kind] ?? [])))
  const rows = scored.map((kind, n) => ({ kind, counts: sums[n]! }))
  return [...rows, { kind: 'overall' as const, counts: sumOfCounts(sums) }].map(({ kind, counts }, n) => {
    const of = (measure: Measure) => estimates[measures.length * n + measures.indexOf(measure)]!
    const shares = { hallucinated: of('hallucinated'), ungrounded: of('ungrounded') }
    return { kind, ...counts, precision: of('precision'), recall: of('recall'), f1: of('f1'), shares }
  })
}

const measures = ['precision', 'recall', 'f1', 'hallucinated', 'ungrounded'] as const

type Measure = (typeof measures)[number]

/** The counts that measures are made of. */
const columns = ['gold', 'found', 'matched', 'hallucinated', 'looked', 'ungrounded'] as const

/** The columns of each kind, and those of all kinds together. */
function columnsOf({ counts }: DocumentScore, scored: readonly Kind[]): number[] {
  const each = scored.map((kind) => counts[kind] ?? noCounts())
  return [...each, sumOfCounts(each)].flatMap((some) => columns.map((name) => some[name]))
}

/** The measures of each kind, and those of all kinds together. */
function measuresOfColumns(sums: Float64Array): (number | null)[] {
  const found: (number | null)[] = []
  for (let at = 0; at < sums.length; at += columns.length) {
    const count = (name: (typeof columns)[number]) => sums[at + columns.indexOf(name)]!
    const counts = { gold: count('gold'), found: count('found'), matched: count('matched') }
    const { precision, recall, f1 } = ratiosOf(counts)
    const shares = [ratio(count('hallucinated'), counts.found), ratio(count('ungrounded'), count('looked'))]
    found.push(precision, recall, f1, ...shares)
  }
  return found
}

function damageRows(scores: readonly DocumentScore[], damageOf: (score: DocumentScore) => string) {
  return [...Map.groupBy(scores, damageOf)]
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([damage, group]) => ({
      damage,
      documents: group.length,
      f1: ratiosOf(sumOfCounts(group.flatMap(({ counts }) => Object.values(counts)))).f1,
    }))
}

/** A run against an earlier one, over the documents that both have scored. */
export interface Comparison {
  /** The earlier run. */
  readonly before: Pick<RunFacts, 'model' | 'prompts' | 'cost'>
  readonly documents: number
  readonly rows: readonly {
    readonly kind: Kind | 'overall'
    readonly measure: Measure
    /** Of the earlier run, of this run, and the difference. */
    readonly before: number | null
    readonly after: number | null
    readonly difference: Estimate
  }[]
}

/** Compares the kinds that both runs have scored. */
export function compareReports(before: EvaluationReport, after: EvaluationReport): Comparison {
  const earlier = new Map(before.scores.map((score) => [score.id, score]))
  const pairs = after.scores.flatMap((score) => {
    const other = earlier.get(score.id)
    return other ? [[other, score] as const] : []
  })
  const common = after.kinds
    .map(({ kind }) => kind as Kind)
    .filter((kind) => before.kinds.some((each) => each.kind === kind))
  const width = columns.length * (common.length + 1)
  const estimates = bootstrap(
    pairs.map((pair) => pair.flatMap((score) => columnsOf(score, common))),
    2 * width,
    (sums) => {
      const [ones, others] = [
        measuresOfColumns(sums.subarray(0, width)),
        measuresOfColumns(sums.subarray(width)),
      ]
      return ones.flatMap((one, n) => {
        const other = others[n]!
        return [one, other, one === null || other === null ? null : other - one]
      })
    },
  )
  const { model, prompts, cost } = before
  return {
    before: { model, prompts, cost },
    documents: pairs.length,
    rows: [...common, 'overall' as const]
      .flatMap((kind) => measures.map((measure) => ({ kind, measure })))
      .map((row, n) => ({
        ...row,
        before: estimates[3 * n]!.value,
        after: estimates[3 * n + 1]!.value,
        difference: estimates[3 * n + 2]!,
      })),
  }
}
