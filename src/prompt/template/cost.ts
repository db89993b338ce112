// What each operation of a template costs, in steps. The cost is known before the operation runs, by the size of what it reads
// and makes, so that no filter, test or operator can exceed the budget of its template.
import { isObject } from '../../is-object.ts'

/** A step is the work for one node of a template, one element of a list, or this many characters. */
const charactersPerStep = 64
const keysPerStep = 16

/** The sizes of the values of one rendering, each calculated once: values do not change, and may share members. */
export class Sizes {
  readonly #known = new WeakMap<object, { readonly whole: number; readonly depth: number }>()
  readonly #own = new WeakMap<object, number>()

  /** The elements or members of a list or object, 0 for anything else. */
  own(value: unknown): number {
    if (Array.isArray(value)) return value.length
    if (!isObject(value)) return 0
    const count = this.#own.get(value) ?? Object.keys(value).length
    this.#own.set(value, count)
    return count
  }

  /** Everything in it, in steps; what it holds twice counts twice. At least 1. */
  whole(value: unknown): number {
    return this.#sizeOf(value).whole
  }

  /** How deeply lists and objects are nested in it: 0 for a text. */
  depth(value: unknown): number {
    return this.#sizeOf(value).depth
  }

  #sizeOf(value: unknown) {
    if (!isStructure(value)) return { whole: plainSteps(value), depth: 0 }
    const before = this.#known.get(value)
    if (before !== undefined) return before
    let [whole, depth] = [1, 0]
    for (const [key, element] of Object.entries(value)) {
      const size = this.#sizeOf(element)
      whole += size.whole + (Array.isArray(value) ? 0 : textSteps(key.length))
      depth = Math.max(depth, size.depth)
    }
    const size = { whole, depth: depth + 1 }
    this.#known.set(value, size)
    return size
  }
}

const isStructure = (value: unknown): value is object => typeof value === 'object' && value !== null

/** Steps for so many characters. */
export function textSteps(length: number): number {
  return 1 + length / charactersPerStep
}

/** `left == right`, `left < right`. */
export function comparisonSteps(left: unknown, right: unknown, sizes: Sizes): number {
  return isStructure(left) && isStructure(right)
    ? sizes.whole(left) + sizes.whole(right)
    : Math.min(plainSteps(left), plainSteps(right))
}

const plainSteps = (value: unknown) => (typeof value === 'string' ? textSteps(value.length) : 1)

/** `part in whole`. */
export function containsSteps(whole: unknown, part: unknown, sizes: Sizes): number {
  if (typeof whole === 'string' && typeof part === 'string') return searchSteps(whole, part)
  if (!Array.isArray(whole)) return plainSteps(part)
  return isStructure(part)
    ? sizes.whole(whole) + whole.length * sizes.whole(part)
    : whole.length * plainSteps(part)
}

/** A search is usually linear, and takes the product of both lengths at worst. */
const searchSteps = (text: string, part: string) => textSteps(text.length) * textSteps(part.length)

/** Filters and tests that read a value, not its members. */
const looking: ReadonlySet<string> = new Set(
  (
    'd default first last length ' +
    'callable defined escaped falsy iterable mapping null number string truthy undefined'
  ).split(' '),
)
/** Filters that read the elements, not the members of these. */
const walking: ReadonlySet<string> = new Set(['batch', 'reverse', 'slice'])

/** Filters and tests that change the case of characters, which takes several times as long as reading them. */
const mapping: ReadonlySet<string> = new Set(['capitalize', 'lower', 'title', 'upper'])
const stepsOfMapping = 4

/** What a filter or a test reads. */
export function readSteps(name: string, args: readonly unknown[], sizes: Sizes): number {
  if (looking.has(name)) return 1
  const sizeOf = (arg: unknown) => (walking.has(name) ? sizes.own(arg) : sizes.whole(arg))
  const steps = args.reduce<number>((sum, arg) => sum + sizeOf(arg), 1)
  return mapping.has(name) ? stepsOfMapping * steps : steps
}

/** What a filter makes beyond what it reads, and its work that is not linear, at most. The arguments are checked already. */
export function madeSteps(name: string, args: readonly unknown[], sizes: Sizes): number {
  return made[name]?.(args, sizes) ?? 0
}

const made: Readonly<Record<string, (args: readonly unknown[], sizes: Sizes) => number>> = {
  batch: ([value, count]) => charactersOf(value) + Number(count ?? 0),
  center: ([, width]) => textSteps(Number(width ?? 0)),
  d: keySteps,
  default: keySteps,
  dictsort: ([value], sizes) => (isObject(value) ? sortSteps(Object.entries(value), sizes) : 0),
  // JSON.stringify indents by ten characters at most.
  dump: ([value, indent], sizes) => (indent ? sizes.whole(value) * textSteps(10 * sizes.depth(value)) : 0),
  indent: ([value, width]) =>
    typeof value === 'string' ? countOf(value, '\n') * textSteps(Number(width ?? 0)) : 0,
  join: ([list, separator], sizes) => sizes.own(list) * sizes.whole(separator),
  replace([value, old, replacement], sizes) {
    if (isStructure(value) || isStructure(old)) return 0
    const [text, part] = [String(value), String(old)]
    return searchSteps(text, part) + (countOf(text, part) + 1) * sizes.whole(replacement)
  },
  reverse: ([value]) => charactersOf(value),
  length: keySteps,
  slice: ([value, count]) => charactersOf(value) + Number(count ?? 0),
  sort([value], sizes) {
    // A text is sorted as a list of its characters.
    if (typeof value === 'string') return value.length * Math.log2(value.length + 1) * 2
    return Array.isArray(value) ? sortSteps(value, sizes) : 0
  },
}

/** The filter counts the keys of an object, or checks whether there is one. */
function keySteps([value]: readonly unknown[], sizes: Sizes): number {
  return isObject(value) ? sizes.own(value) / keysPerStep : 0
}

/** Each comparison may read two of the largest elements. */
function sortSteps(elements: readonly unknown[], sizes: Sizes): number {
  const largest = elements.reduce<number>((most, element) => Math.max(most, sizes.whole(element)), 1)
  return elements.length * Math.log2(elements.length + 1) * 2 * largest
}

/** For a filter that treats a text as a list of its characters. */
const charactersOf = (value: unknown) => (typeof value === 'string' ? value.length : 0)

function countOf(text: string, part: string): number {
  if (part === '') return text.length
  let count = 0
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++
  return count
}
