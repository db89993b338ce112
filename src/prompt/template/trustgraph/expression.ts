// One expression of a tag: a literal, a dotted name or a call, and filters. `a.b('x')|default('none')|upper`
import { applyFilter, findFilter } from './filters.ts'
import { readLiteral } from './literal.ts'
import { splitAt, strip } from './text.ts'
import { type Cost, PythonFault, type Value } from './value.ts'

interface FilterCall {
  readonly name: string
  readonly args: readonly Value[]
}

export type Expression =
  | { readonly kind: 'literal'; readonly value: Value }
  | {
      readonly kind: 'name'
      /** `a.b.0` in parts. */
      readonly path: readonly string[]
      /** The arguments, when it is called. */
      readonly args: readonly Value[] | undefined
      readonly filters: readonly FilterCall[]
    }

const call = /^([\p{L}\p{N}_.]+)\((.*)\)$/u
const dotted = /^[\p{L}\p{N}_.]+$/u

/** The expression; filters of a literal are applied at once. Throws PythonFault. */
export function parseExpression(source: string, cost: Cost): Expression {
  const [primary = '', ...rest] = splitAt(strip(source), '|')
  const filters = rest.map(parseFilter)
  const literal = readLiteral(primary)
  if (literal !== undefined) return { kind: 'literal', value: filtered(literal.value, filters, cost) }
  const { name, args } = parseCall(primary)
  if (!dotted.test(name)) throw new PythonFault(`"${shortened(primary)}" is no expression`)
  const path = name.split('.')
  // In Python these lead out of a term's own data, and `stack` is the engine's own.
  const hidden =
    path.find((word) => /^__.+__$/.test(word)) ?? path.slice(0, 1).find((word) => word === 'stack')
  if (hidden !== undefined) throw new PythonFault(`"${hidden}" is not for templates`)
  return { kind: 'name', path, args, filters }
}

function parseFilter(source: string): FilterCall {
  const { name, args = [] } = parseCall(source)
  findFilter(name)
  return { name, args }
}

function parseCall(source: string): { readonly name: string; readonly args: readonly Value[] | undefined } {
  const match = source.includes('\n') ? null : call.exec(source)
  if (match === null) return { name: source, args: undefined }
  const args = splitAt(match[2]!, ',').filter((text) => text !== '')
  return { name: match[1]!, args: args.map(parseArgument) }
}

function parseArgument(source: string): Value {
  const literal = readLiteral(source)
  if (literal === undefined) throw new PythonFault(`the argument "${shortened(source)}" is no literal`)
  return literal.value
}

export function filtered(value: Value, filters: readonly FilterCall[], cost: Cost): Value {
  return filters.reduce((result, { name, args }) => applyFilter(name, result, args, cost), value)
}

const shortened = (text: string) => (text.length <= 80 ? text : `${text.slice(0, 79)}…`)
