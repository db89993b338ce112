// The filters of TrustGraph's template engine, apart from those that depend on the time, on chance, on layout or on
// the content of HTML.
import { joined, joinShown, textOf } from './methods.ts'
import { strip, words } from './text.ts'
import {
  type Cost,
  compare,
  elements,
  Iterator,
  isTrue,
  item,
  lengthOf,
  PythonFault,
  repr,
  show,
  slice,
  typeOf,
  type Value,
} from './value.ts'

type Apply = (value: Value, args: readonly Value[], cost: Cost) => Value

interface Filter {
  /** How many arguments it takes, beside the value. */
  readonly least: number
  readonly most: number
  readonly apply: Apply
}

const none = (apply: Apply): Filter => ({ least: 0, most: 0, apply })
const one = (apply: Apply): Filter => ({ least: 1, most: 1, apply })
const upTo = (most: number, apply: Apply, least = 0): Filter => ({ least, most, apply })

const escaping = upTo(1, (value, [quotes = true], cost) => escapeHtml(textOf(value), isTrue(quotes), cost))
const title = none((value) =>
  textOf(value).replace(/[A-Za-z]+('[A-Za-z]+)?/g, (word) => word[0]!.toUpperCase() + word.slice(1)),
)

/** `value % divisor == 0` */
function isDivisible(value: Value, divisor: Value): boolean {
  for (const number of [value, divisor])
    if (!['boolean', 'bigint', 'number'].includes(typeof number))
      throw new PythonFault(`it needs numbers, not ${typeOf(number)}`)
  const [a, b] = [value as bigint, divisor as bigint]
  if (compare(b, 0n, () => undefined) === 0) throw new PythonFault('division by zero')
  return typeof a === 'number' || typeof b === 'number'
    ? Number(a) % Number(b) === 0
    : BigInt(a) % BigInt(b) === 0n
}

/** `text[: length - 3]` and the like: an end below 0 counts from the end. */
const cut = (text: string, end: number, cost: Cost) => slice(text, [null, BigInt(end), null], cost) as string

const filters: Readonly<Record<string, Filter>> = {
  argtest: upTo(100, (value, args, cost) => joinShown([value, ...args], '|', cost)),
  default: one((value, [fallback]) => (isTrue(value) ? value : fallback)),
  divisible_by: one((value, [divisor]) => isDivisible(value, divisor)),
  e: escaping,
  endswith: one((value, [suffix]) => textOf(value).endsWith(textOf(suffix))),
  esc: escaping,
  escape: escaping,
  even: none((value) => isDivisible(value, 2n)),
  first: none((value, _, cost) => item(value, 0n, cost)),
  if_undefined: one((value, [fallback]) => (value === undefined ? fallback : value)),
  index: one((value, [key], cost) => item(value, key, cost)),
  is_defined: none((value) => value !== undefined),
  join: upTo(1, (value, [separator = ''], cost) => joinShown(value, textOf(separator), cost)),
  last: none((value, _, cost) => item(value, -1n, cost)),
  len: none((value) => BigInt(length(value))),
  lower: none((value) => textOf(value).toLowerCase()),
  odd: none((value) => !isDivisible(value, 2n)),
  repr: none((value, _, cost) => repr(value, cost)),
  reversed: none((value, _, cost) => {
    if (value === undefined || value instanceof Iterator)
      throw new PythonFault(`${typeOf(value)} cannot be reversed`)
    return new Iterator([...elements(value, cost)].reverse())
  }),
  slice: upTo(
    3,
    (value, [start, stop = null, step = null], cost) => slice(value, [start, stop, step], cost),
    1,
  ),
  spaceless: none((value, _, cost) => spaceless(textOf(value), cost)),
  startswith: one((value, [prefix]) => textOf(value).startsWith(textOf(prefix))),
  str: none((value, _, cost) => show(value, cost)),
  striptags: none((value, _, cost) => stripTags(textOf(value), cost)),
  teaser: upTo(1, (value, [delimiter = '<!-- more -->']) => {
    const at = textOf(value).indexOf(textOf(delimiter))
    return textOf(value).slice(0, Math.max(0, at))
  }),
  title,
  titlecase: title,
  truncatechars: upTo(
    2,
    (value, [most, ellipsis = '...'], cost) => {
      const limit = whole(most)
      if (length(value) <= limit) return value
      const kept = strip(cut(textOf(value), limit - 3, cost), 'right', (character) =>
        ' .,;:?!'.includes(character!),
      )
      return kept + textOf(ellipsis)
    },
    1,
  ),
  truncatewords: upTo(
    2,
    (value, [most, ellipsis = ' [...]'], cost) => {
      const all = words(textOf(value))
      const limit = whole(most)
      return all.length > limit
        ? joined(all.slice(0, limit), ' ', cost) + textOf(ellipsis)
        : joined(all, ' ', cost)
    },
    1,
  ),
  upper: none((value) => textOf(value).toUpperCase()),
  wrap: one((value, [tag], cost) => `<${show(tag, cost)}>${show(value, cost)}</${show(tag, cost)}>`),
}

/** Filters of the engine that are not supported. */
const others: ReadonlySet<string> = new Set(
  'dtformat firsth firsth1 firstp pprint pygmentize random'.split(' '),
)

/** The filter; throws PythonFault when there is none. */
export function findFilter(name: string): Filter {
  const filter = Object.hasOwn(filters, name) ? filters[name] : undefined
  if (filter !== undefined) return filter
  throw new PythonFault(others.has(name) ? `the filter "${name}" is not supported` : `no filter "${name}"`)
}

/** Throws PythonFault with the name of the filter. */
export function applyFilter(name: string, value: Value, args: readonly Value[], cost: Cost): Value {
  const { least, most, apply } = findFilter(name)
  try {
    if (args.length < least || args.length > most)
      throw new PythonFault('the number of its arguments is wrong')
    cost(typeof value === 'string' ? 1 + value.length / 16 : 1)
    return apply(value, args, cost)
  } catch (error) {
    if (error instanceof PythonFault) throw new PythonFault(`the filter "${name}": ${error.message}`)
    throw error
  }
}

function length(value: Value): number {
  const found = lengthOf(value)
  if (found === undefined) throw new PythonFault(`${typeOf(value)} has no length`)
  return found
}

function whole(value: Value): number {
  if (typeof value !== 'bigint') throw new PythonFault(`it needs a whole number, not ${typeOf(value)}`)
  return Number(value)
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#x27;',
}

export function escapeHtml(text: string, quotes: boolean, cost: Cost): string {
  cost(text.length / 16)
  return text.replace(quotes ? /[&<>"']/g : /[&<>]/g, (character) => entities[character]!)
}

/** Without the blanks between a `>` and the next `<`. */
export function spaceless(text: string, cost: Cost): string {
  cost(text.length / 16)
  const [first = '', ...rest] = text.split('>')
  return [first, ...rest.map((part) => (part.includes('<') ? dropBlanksBefore(part) : part))].join('>')
}

function dropBlanksBefore(part: string): string {
  const from = strip(part, 'left')
  return from.startsWith('<') ? from : part
}

/** Without what stands between a `<` and the next `>`. */
function stripTags(text: string, cost: Cost): string {
  cost(text.length / 16)
  let [kept, at] = ['', 0]
  for (;;) {
    const open = text.indexOf('<', at)
    const close = open === -1 ? -1 : text.indexOf('>', open)
    if (close === -1) return kept + text.slice(at)
    kept += text.slice(at, open)
    at = close + 1
  }
}
