// A report for people: tables and lines, and the same as one HTML file.
import type { Estimate } from './bootstrap.ts'
import type { Comparison, EvaluationReport, KindReport, RunFacts } from './report.ts'

type Row = Readonly<Record<string, string | number>>

export interface ReportView {
  readonly tables: readonly { readonly title: string; readonly rows: readonly Row[] }[]
  /** Pairs of a name and its text. */
  readonly lines: readonly (readonly [string, string])[]
}

/** The tables and lines of a report, and of its comparison with an earlier one. Numbers that are not known are `-`. */
export function viewOf(report: EvaluationReport, comparison: Comparison | undefined): ReportView {
  const { damages } = report
  return {
    tables: [
      { title: 'Scores', rows: [...report.kinds, report.overall].map(kindRow) },
      ...(comparison ? [comparisonTable(report, comparison)] : []),
      ...(damages.length > 0
        ? [{ title: 'Damaged replies', rows: damages.map((row) => ({ ...row, f1: number(row.f1) })) }]
        : []),
    ],
    lines: linesOf(report, comparison?.before),
  }
}

function kindRow({ kind, gold, found, matched, precision, recall, f1, shares }: KindReport): Row {
  return {
    kind,
    gold,
    found,
    matched,
    precision: estimate(precision),
    recall: estimate(recall),
    f1: estimate(f1),
    hallucinated: percent(shares.hallucinated.value),
    ungrounded: percent(shares.ungrounded.value),
  }
}

function comparisonTable(report: EvaluationReport, { before, documents, rows }: Comparison) {
  return {
    title: `${nameOf(before)} (before) and ${nameOf(report)} (after) in the ${documents} documents that both have scored`,
    rows: rows.map((row) => ({
      kind: row.kind,
      measure: row.measure,
      before: number(row.before),
      after: number(row.after),
      difference: estimate(row.difference),
    })),
  }
}

/** What a run was made with. */
const nameOf = ({ model, prompts }: Pick<RunFacts, 'model' | 'prompts'>) =>
  prompts.length === 0 ? model : `${model} with ${prompts.join(', ')}`

function linesOf(report: EvaluationReport, before: Comparison['before'] | undefined): [string, string][] {
  const { documents, scored, partial, failed, hallucinated, unreported } = report
  const unfinished = documents - scored
  const counted = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts)
      .map(([name, count]) => `${count} ${name}`)
      .sort()
      .join(', ') || 'none'
  const missing = report.notExtracted.map((kind): [string, string] => [
    'not scored',
    `${kind}: no extractor of this run gives them`,
  ])
  return [
    ['model', report.model],
    ['prompts', report.prompts.join(', ') || 'built-in'],
    [
      'documents',
      `${scored} scored${note(unfinished, 'not finished')}${note(partial, 'partial')}${note(failed, 'failed')}`,
    ],
    ...missing,
    [
      'hallucinated',
      `${percent(hallucinated.subject)} of subjects, ${percent(hallucinated.relation)} of relations, ${percent(hallucinated.object)} of objects`,
    ],
    ['rejected', counted(report.rejected)],
    ['calls', counted(report.calls)],
    [
      'tokens',
      `${report.promptTokens} in, ${report.completionTokens} out${unreported > 0 ? ` (${unreported} calls without a count)` : ''}`,
    ],
    ...costOf(report.cost, before?.cost),
  ]
}

/** Without prices there is no line. */
function costOf(cost: number | null, before: number | null | undefined): [string, string][] {
  if (cost === null && (before ?? null) === null) return []
  return [['cost', `${amount(cost)}${before === undefined ? '' : ` (before: ${amount(before)})`}`]]
}

const note = (count: number, word: string) => (count > 0 ? `, ${count} ${word}` : '')
const number = (value: number | null) => (value === null ? '-' : value.toFixed(3))
const amount = (cost: number | null) => (cost === null ? 'unknown' : cost.toFixed(4))
const percent = (value: number | null) => (value === null ? '-' : `${(100 * value).toFixed(1)}%`)
const estimate = ({ value, low, high }: Estimate) =>
  value === null ? '-' : `${number(value)} (${number(low)} to ${number(high)})`

/** The report as one HTML file that needs no other files. All texts are escaped. */
export function htmlOf({ tables, lines }: ReportView): string {
  const shown = tables.map(({ title, rows }) => {
    const names = Object.keys(rows[0] ?? {})
    const cells = (tag: string, texts: readonly unknown[]) =>
      `<tr>${texts.map((text) => `<${tag}>${escaped(String(text))}</${tag}>`).join('')}</tr>`
    const body = rows.map((row) =>
      cells(
        'td',
        names.map((name) => row[name]),
      ),
    )
    return `<h2>${escaped(title)}</h2>\n<table>\n${[cells('th', names), ...body].join('\n')}\n</table>`
  })
  const terms = lines.map(([name, text]) => `<dt>${escaped(name)}</dt><dd>${escaped(text)}</dd>`)
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>graphmill eval</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
table { border-collapse: collapse }
th, td { border-bottom: 1px solid #ccc; padding: .3rem .8rem; text-align: left }
dt { float: left; clear: left; width: 9rem; font-weight: bold }
dd { margin-left: 9rem }
</style>
<h1>graphmill eval</h1>
${shown.join('\n')}
<p>In parentheses: 95% confidence intervals by the bootstrap over documents.</p>
<dl>
${terms.join('\n')}
</dl>
</html>
`
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escaped = (text: string) => text.replaceAll(/[&<>"']/g, (character) => entities[character]!)
