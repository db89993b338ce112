// The filters and tests of templates: those of nunjucks that are pure and read no attribute by name. Some show values as JSON.

import nunjucks from 'nunjucks'
import { describeValue, isTrue, show } from './value.ts'

type Filter = (value: unknown, ...args: readonly unknown[]) => unknown

const environment = new nunjucks.Environment([], { autoescape: false })
const { filters, tests } = environment as unknown as {
  readonly filters: Readonly<Record<string, Filter>>
  readonly tests: Readonly<Record<string, Filter>>
}

/** The largest width or count: `indent(1e9)` would fill the memory. */
const largestArgument = 10_000

/** The filters whose first argument is a width or a count. */
const counted: ReadonlySet<string> = new Set(['batch', 'center', 'indent', 'round', 'slice', 'truncate'])

const borrowed = (
  'abs batch capitalize center dictsort dump e escape first float indent int last length lower ' +
  'replace reverse round safe slice title truncate upper urlencode wordcount'
).split(' ')

const own: Readonly<Record<string, Filter>> = {
  default: orDefault,
  d: orDefault,
  join: (value, separator = '') => joinable(value).map(show).join(show(separator)),
  sort: (value, reverse = false, caseSensitive = false) =>
    filters['sort']!.call({ env: environment }, value, reverse, caseSensitive),
  string: show,
  // The trim of nunjucks takes quadratic time for a text with many blanks.
  trim(value) {
    if (typeof value !== 'string') throw new TypeError()
    return value.trim()
  },
}

/** `undefined` is passed to `default` only. */
function orDefault(value: unknown, fallback: unknown = '', forFalse: unknown = false): unknown {
  return value === undefined || (isTrue(forFalse) && !isTrue(value)) ? fallback : value
}

function joinable(value: unknown): readonly unknown[] {
  if (value === null) return []
  if (Array.isArray(value)) return value
  throw new Error('it takes a list')
}

export const filterNames: ReadonlySet<string> = new Set([...borrowed, ...Object.keys(own)].sort())

/** `x is defined` and the like. `callable`, `escaped` and the HTML ones make no sense on JSON values but do no harm. */
export const testNames: ReadonlySet<string> = new Set(Object.keys(tests))

/** The arguments as the filter takes them, a width or count as a number. Throws an Error with a short reason. */
export function filterArguments(name: string, args: readonly unknown[]): readonly unknown[] {
  const [value, first, ...rest] = args
  if (!counted.has(name) || first === undefined || first === null) return args
  const count = typeof first === 'object' ? Number.NaN : Number(first)
  if (Number.isNaN(count)) throw new Error(`its argument is ${describeValue(first)}, not a number`)
  if (Math.abs(count) > largestArgument) throw new Error(`its argument is over ${largestArgument}`)
  return [value, count, ...rest]
}

/** The value that the filter makes of checked arguments. Throws an Error with a short reason. */
export function applyFilter(name: string, [value, ...args]: readonly unknown[]): unknown {
  const filter = own[name] ?? filters[name]!
  const result = filter.call({ env: environment }, value, ...args)
  // nunjucks wraps a string that it marks as safe.
  return result instanceof String ? result.toString() : result
}

export function applyTest(name: string, [value, ...args]: readonly unknown[]): boolean {
  return tests[name]!.call({ env: environment }, value, ...args) === true
}
