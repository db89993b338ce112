// The attributes of Python's values: a name that a type has hides a key of the same name. Methods that read are supported.
import { isBlank, strip, words } from './text.ts'
import {
  Callable,
  type Cost,
  contains,
  elements,
  equals,
  PythonFault,
  Range,
  show,
  Tuple,
  typeOf,
  type Value,
  View,
} from './value.ts'

type Method<T> = (self: T, args: readonly Value[], cost: Cost) => Value

/** The public attributes of the types, whether or not they are supported. */
const attributes: Readonly<Record<string, ReadonlySet<string>>> = {
  str: names(`capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha
    isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip
    maketrans partition removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines
    startswith strip swapcase title translate upper zfill`),
  dict: names('clear copy fromkeys get items keys pop popitem setdefault update values'),
  list: names('append clear copy count extend index insert pop remove reverse sort'),
  tuple: names('count index'),
  range: names('count index start step stop'),
  view: names('isdisjoint mapping'),
  bool: names(
    `as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes`,
  ),
  int: names(
    `as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes`,
  ),
  float: names('as_integer_ratio conjugate fromhex hex imag is_integer real'),
}

function names(list: string): ReadonlySet<string> {
  return new Set(list.trim().split(/\s+/))
}

/** Whether Python's value has the attribute. */
export function hasAttribute(value: Value, name: string): boolean {
  return attributes[typeOf(value)]?.has(name) ?? false
}

/** An attribute that the value has. Throws PythonFault for one that is not supported. */
export function attribute(value: Value, name: string, cost: Cost): Value {
  if (value instanceof Range && name in value) return value[name as 'start' | 'stop' | 'step']
  if (['real', 'numerator'].includes(name)) return typeof value === 'boolean' ? BigInt(value) : value
  if (name === 'denominator') return 1n
  if (name === 'imag') return typeof value === 'number' ? 0 : 0n
  return new Callable(`<built-in method ${name} of ${typeOf(value)} object at 0x7f0000000000>`, (args) => {
    const methods = methodsOf[typeOf(value)]
    const method = methods !== undefined && Object.hasOwn(methods, name) ? methods[name] : undefined
    if (method === undefined) throw new PythonFault(`.${name}() of ${typeOf(value)} is not supported`)
    if (typeof value === 'string') cost(1 + value.length / 16)
    return method(value as never, args, cost)
  })
}

const sequence: Readonly<Record<string, Method<readonly Value[] | Tuple | Range>>> = {
  count: (self, [part], cost) =>
    BigInt(elements(self, cost).filter((element) => equals(element, part, cost)).length),
  index(self, [part], cost) {
    const at = elements(self, cost).findIndex((element) => equals(element, part, cost))
    if (at === -1) throw new PythonFault('it is not in the list')
    return BigInt(at)
  },
}

const texts: Readonly<Record<string, Method<string>>> = {
  capitalize: (self) => upperFirst(self),
  count(self, [part], cost) {
    const found = textOf(part)
    cost((1 + self.length / 64) * (1 + found.length / 64))
    return BigInt(found === '' ? [...self].length + 1 : self.split(found).length - 1)
  },
  endswith: (self, [suffix]) => hasAffix(self, suffix, 'endsWith'),
  find: (self, args, cost) => BigInt(placeIn(self, args, cost, 'indexOf')),
  index: (self, args, cost) => BigInt(found(placeIn(self, args, cost, 'indexOf'))),
  isalnum: (self) => /^[\p{L}\p{N}]+$/u.test(self),
  isalpha: (self) => /^\p{L}+$/u.test(self),
  isascii: (self) => !/[^\x00-\x7f]/.test(self),
  isdecimal: (self) => /^\p{Nd}+$/u.test(self),
  islower: (self) => self === self.toLowerCase() && /\p{Lowercase}/u.test(self),
  isspace: (self) => self !== '' && [...self].every(isBlank),
  isupper: (self) => self === self.toUpperCase() && /\p{Uppercase}/u.test(self),
  join: (self, [list], cost) => joined(elements(list, cost).map(textOf), self, cost),
  lower: (self) => self.toLowerCase(),
  lstrip: (self, [dropped]) => strip(self, 'left', droppedBy(dropped)),
  partition(self, [part]) {
    const at = self.indexOf(notEmpty(part))
    return new Tuple(at === -1 ? [self, '', ''] : cutAt(self, at, textOf(part).length))
  },
  removeprefix: (self, [part]) => (self.startsWith(textOf(part)) ? self.slice(textOf(part).length) : self),
  removesuffix: (self, [part]) =>
    self.endsWith(textOf(part)) ? self.slice(0, self.length - textOf(part).length) : self,
  replace(self, [old, replacement, ...rest], cost) {
    const [from, to] = [textOf(old), textOf(replacement)]
    if (rest.length > 0) throw new PythonFault('.replace() with a count is not supported')
    const parts = from === '' ? ['', ...self, ''] : self.split(from)
    return joined(parts, to, cost)
  },
  rfind: (self, args, cost) => BigInt(placeIn(self, args, cost, 'lastIndexOf')),
  rindex: (self, args, cost) => BigInt(found(placeIn(self, args, cost, 'lastIndexOf'))),
  rpartition(self, [part]) {
    const at = self.lastIndexOf(notEmpty(part))
    return new Tuple(at === -1 ? ['', '', self] : cutAt(self, at, textOf(part).length))
  },
  rstrip: (self, [dropped]) => strip(self, 'right', droppedBy(dropped)),
  split(self, [separator, ...rest], cost) {
    if (rest.length > 0) throw new PythonFault('.split() with a limit is not supported')
    cost(self.length / 8)
    return separator === undefined || separator === null ? words(self) : self.split(notEmpty(separator))
  },
  splitlines(self, args, cost) {
    if (args.length > 0) throw new PythonFault('.splitlines() takes no argument here')
    cost(self.length / 8)
    const lines = self.split(/\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/)
    return lines.at(-1) === '' ? lines.slice(0, -1) : lines
  },
  startswith: (self, [prefix]) => hasAffix(self, prefix, 'startsWith'),
  strip: (self, [dropped]) => strip(self, undefined, droppedBy(dropped)),
  swapcase: (self) =>
    self.replace(/\p{L}/gu, (letter) =>
      letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
    ),
  title: (self) => self.replace(/\p{L}+/gu, upperFirst),
  upper: (self) => self.toUpperCase(),
}

const methodsOf: Readonly<Record<string, Readonly<Record<string, Method<never>>>>> = {
  str: texts,
  dict: {
    copy: (self: Dict) => self,
    get: (self: Dict, [key, otherwise = null]: readonly Value[], cost: Cost) =>
      contains(self, key, cost) ? self.get(key as string) : otherwise,
    items: (self: Dict) => new View('items', self),
    keys: (self: Dict) => new View('keys', self),
    values: (self: Dict) => new View('values', self),
  },
  list: { ...sequence, copy: (self: readonly Value[]) => self },
  tuple: sequence,
  range: sequence,
  float: { is_integer: (self: number) => Number.isInteger(self) },
}

type Dict = ReadonlyMap<string, Value>

export function textOf(value: Value): string {
  if (typeof value !== 'string') throw new PythonFault(`it needs a text, not ${typeOf(value)}`)
  return value
}

/** `separator.join(parts)`, charged before it is made. */
export function joined(parts: readonly string[], separator: string, cost: Cost): string {
  const length = parts.reduce((sum, part) => sum + part.length + separator.length, 0)
  cost(parts.length / 4 + length / 64)
  return parts.join(separator)
}

/** The texts of the elements, with `separator` between them. */
export function joinShown(list: Value, separator: string, cost: Cost): string {
  return joined(
    elements(list, cost).map((element) => show(element, cost)),
    separator,
    cost,
  )
}

const upperFirst = (text: string) => {
  const [first = ''] = text
  // The capital of ß is "Ss" here.
  const [capital = '', ...rest] = first.toUpperCase()
  return capital + (rest.join('') + text.slice(first.length)).toLowerCase()
}

function hasAffix(text: string, affix: Value, test: 'startsWith' | 'endsWith'): boolean {
  return affix instanceof Tuple
    ? affix.items.some((candidate) => text[test](textOf(candidate)))
    : text[test](textOf(affix))
}

function placeIn(
  text: string,
  [part, ...rest]: readonly Value[],
  cost: Cost,
  search: 'indexOf' | 'lastIndexOf',
): number {
  const searched = textOf(part)
  if (rest.length > 0) throw new PythonFault('a search from a place is not supported')
  cost((1 + text.length / 64) * (1 + searched.length / 64))
  const at = text[search](searched)
  return at === -1 ? -1 : [...text.slice(0, at)].length
}

function found(place: number): number {
  if (place === -1) throw new PythonFault('the text is not found')
  return place
}

function notEmpty(part: Value): string {
  if (textOf(part) === '') throw new PythonFault('the separator is empty')
  return part as string
}

const cutAt = (text: string, at: number, length: number) => [
  text.slice(0, at),
  text.slice(at, at + length),
  text.slice(at + length),
]

function droppedBy(characters: Value): ((character: string | undefined) => boolean) | undefined {
  if (characters === undefined || characters === null) return undefined
  const set = new Set(textOf(characters))
  return (character) => set.has(character!)
}
