// Renders a template's tree over terms. Undefined flows through every operation and is an error where it would be written or
// looped over; work and output are bounded, so that no template can hold up the messages beside it.
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../is-object.ts'
import {
  comparisonSteps,
  containsSteps,
  createSizes,
  madeSteps,
  readSteps,
  type Sizes,
  textSteps,
} from './cost.ts'
import { applyFilter, applyTest, filterArguments } from './filters.ts'
import { type Comparison, type Expression, forbiddenNames, type Statement, TemplateFault } from './tree.ts'
import { describeValue, isTrue, member, show } from './value.ts'

/** Nodes evaluated in one rendering, and what they read and make (see cost.ts): about a tenth of a second. */
const maxSteps = 1_000_000
/** Characters written in one rendering, those of captured blocks and joined strings included. */
const maxLength = 16 * 1024 * 1024
const maxRange = 100_000

/** One rendering. */
interface Rendering {
  readonly terms: ReadonlyMap<string, unknown>
  /** Innermost last: a `for` opens one, `set` writes where the name is, else in the last. */
  readonly frames: Map<string, unknown>[]
  steps: number
  length: number
  readonly sizes: Sizes
  /** What was last found to be undefined, for the message. */
  missing: { readonly name: string; readonly isTerm: boolean } | undefined
}

/** The text. Throws TemplateFault. */
export function renderTemplate(body: readonly Statement[], terms: ReadonlyMap<string, unknown>): string {
  const sizes = createSizes()
  return renderBody(body, { terms, frames: [new Map()], steps: 0, length: 0, sizes, missing: undefined })
}

function renderBody(body: readonly Statement[], rendering: Rendering): string {
  let text = ''
  for (const statement of body) text += renderStatement(statement, rendering)
  return text
}

function renderStatement(statement: Statement, rendering: Rendering): string {
  charge(1, rendering, statement.line)
  switch (statement.kind) {
    case 'text':
      return countText(statement.text, rendering, statement.line)
    case 'output':
      return countText(
        shown(needed(statement.value, rendering), rendering, statement.line),
        rendering,
        statement.line,
      )
    case 'if': {
      const condition = truth(statement.condition, rendering)
      return renderBody(condition ? statement.body : statement.otherwise, rendering)
    }
    case 'for':
      return renderFor(statement, rendering)
    case 'set': {
      const value = evaluate(statement.value, rendering)
      for (const name of statement.names) assign(name, value, rendering)
      return ''
    }
    default:
      return statement satisfies never
  }
}

function renderFor(statement: Statement & { kind: 'for' }, rendering: Rendering): string {
  const { names, line } = statement
  const list = needed(statement.list, rendering)
  charge(typeof list === 'string' ? list.length : rendering.sizes.own(list), rendering, line)
  const elements = elementsOf(list, names.length, line)
  if (elements.length === 0) return renderBody(statement.otherwise, rendering)
  const frame = new Map<string, unknown>()
  rendering.frames.push(frame)
  let text = ''
  for (const [index, element] of elements.entries()) {
    charge(1, rendering, line)
    frame.set('loop', loopState(index, elements.length))
    for (const [place, value] of unpack(element, names, line).entries()) frame.set(names[place]!, value)
    text += renderBody(statement.body, rendering)
  }
  rendering.frames.pop()
  return text
}

/** A list's elements; of an object the keys, or key and value where two names ask for them; the characters of a text. */
function elementsOf(value: unknown, names: number, line: number): readonly unknown[] {
  if (value === null) return []
  if (Array.isArray(value)) return value
  if (isObject(value)) return names === 2 ? Object.entries(value) : Object.keys(value)
  if (typeof value === 'string') return [...value]
  throw new TemplateFault(`${describeValue(value)} cannot be looped over`, line)
}

function unpack(element: unknown, names: readonly string[], line: number): readonly unknown[] {
  if (names.length === 1) return [element]
  if (Array.isArray(element) && element.length === names.length) return element
  const found = Array.isArray(element) ? `a list of ${element.length}` : describeValue(element)
  throw new TemplateFault(`"for ${names.join(', ')}" needs lists of ${names.length}, and met ${found}`, line)
}

function loopState(index: number, length: number): Readonly<Record<string, unknown>> {
  return {
    index: index + 1,
    index0: index,
    revindex: length - index,
    revindex0: length - index - 1,
    first: index === 0,
    last: index === length - 1,
    length,
  }
}

function assign(name: string, value: unknown, rendering: Rendering): void {
  const frame = rendering.frames.findLast((candidate) => candidate.has(name)) ?? rendering.frames.at(-1)!
  frame.set(name, value)
}

/** A value that must not be undefined. */
function needed(expression: Expression, rendering: Rendering): unknown {
  rendering.missing = undefined
  const value = evaluate(expression, rendering)
  if (value !== undefined) return value
  // evaluate() may have set it, which the compiler cannot see
  const missing = rendering.missing as Rendering['missing']
  if (missing === undefined) throw new TemplateFault(`${describe(expression)} has no value`, expression.line)
  const what = missing.isTerm ? `the term "${missing.name}" is not given` : `"${missing.name}" has no value`
  throw new TemplateFault(what, expression.line, { term: missing.name })
}

/** The expression as written, as far as its names go. */
function describe(expression: Expression): string {
  switch (expression.kind) {
    case 'name':
      return expression.name
    case 'call':
      return expression.target === undefined
        ? expression.method
        : `${describe(expression.target)}.${expression.method}()`
    case 'member': {
      const { key } = expression
      const written =
        key.kind === 'literal' && typeof key.value === 'string' ? `.${key.value}` : `[${describe(key)}]`
      return describe(expression.target) + written
    }
    case 'literal':
      return show(expression.value)
    default:
      return 'the expression'
  }
}

function evaluate(expression: Expression, rendering: Rendering): unknown {
  charge(1, rendering, expression.line)
  switch (expression.kind) {
    case 'literal':
      return expression.value
    case 'name':
      return lookUp(expression.name, rendering)
    case 'member':
      return memberOf(expression, rendering)
    case 'call':
      return callOf(expression, rendering)
    case 'filter':
      return filtered(expression, rendering)
    case 'test':
      return tested(expression, rendering)
    case 'binary':
      return binary(expression, rendering)
    case 'unary':
      return unary(expression, rendering)
    case 'choice':
      if (truth(expression.condition, rendering)) return evaluate(expression.yes, rendering)
      return expression.no === undefined ? '' : evaluate(expression.no, rendering)
    case 'list':
      return allDefined(expression.items, rendering)
    case 'object': {
      const values = allDefined(
        expression.entries.map(([, value]) => value),
        rendering,
      )
      return values && Object.fromEntries(expression.entries.map(([key], place) => [key, values[place]]))
    }
    case 'capture':
      return renderBody(expression.body, rendering)
    default:
      return expression satisfies never
  }
}

/** The values, or undefined when one of them is. */
function allDefined(expressions: readonly Expression[], rendering: Rendering): unknown[] | undefined {
  const values: unknown[] = []
  for (const expression of expressions) {
    const value = evaluate(expression, rendering)
    if (value === undefined) return undefined
    values.push(value)
  }
  return values
}

function lookUp(name: string, rendering: Rendering): unknown {
  const frame = rendering.frames.findLast((candidate) => candidate.has(name))
  const value = frame === undefined ? rendering.terms.get(name) : frame.get(name)
  if (value === undefined) rendering.missing = { name, isTerm: frame === undefined }
  return value
}

function memberOf(expression: Expression & { kind: 'member' }, rendering: Rendering): unknown {
  const target = evaluate(expression.target, rendering)
  if (target === undefined) return undefined
  const key = evaluate(expression.key, rendering)
  if (key === undefined) return undefined
  if (typeof key === 'string') charge(textSteps(key.length), rendering, expression.line)
  if (typeof key === 'string' && forbiddenNames.has(key))
    throw new TemplateFault(`"${key}" is not for templates`, expression.line, { term: key })
  const value = member(target, key)
  if (value === undefined) rendering.missing = { name: describe(expression), isTerm: false }
  return value
}

function callOf(expression: Expression & { kind: 'call' }, rendering: Rendering): unknown {
  const { target, method, line } = expression
  if (target === undefined) return range(expression, rendering)
  const value = evaluate(target, rendering)
  if (value === undefined) return undefined
  if (value === null) return []
  if (!isObject(value))
    throw new TemplateFault(`${describe(target)} is ${describeValue(value)} and has no .${method}()`, line)
  charge(rendering.sizes.own(value), rendering, line)
  if (method === 'items') return Object.entries(value)
  return method === 'keys' ? Object.keys(value) : Object.values(value)
}

/** range(end), range(start, end), range(start, end, step): as Python's. */
function range({ args, line }: Expression & { kind: 'call' }, rendering: Rendering): number[] | undefined {
  const values = allDefined(args, rendering)
  if (values === undefined) return undefined
  const [first, second, step = 1] = values
  const [start, end] = second === undefined ? [0, first] : [first, second]
  if (![start, end, step].every(Number.isSafeInteger) || step === 0 || values.length > 3)
    throw new TemplateFault('range takes one to three whole numbers, the step not 0', line)
  const length = Math.max(0, Math.ceil(((end as number) - (start as number)) / (step as number)))
  if (length > maxRange) throw new TemplateFault(`range is longer than ${maxRange}`, line)
  charge(length, rendering, line)
  return Array.from({ length }, (_, index) => (start as number) + index * (step as number))
}

function filtered(expression: Expression & { kind: 'filter' }, rendering: Rendering): unknown {
  const { name, line } = expression
  const takesUndefined = name === 'default' || name === 'd'
  const args = takesUndefined
    ? expression.args.map((arg) => evaluate(arg, rendering))
    : allDefined(expression.args, rendering)
  if (args === undefined) return undefined
  try {
    const { sizes } = rendering
    const checked = filterArguments(name, args)
    charge(readSteps(name, checked, sizes), rendering, line)
    charge(madeSteps(name, checked, sizes), rendering, line)
    const value = applyFilter(name, checked)
    return typeof value === 'string' ? countText(value, rendering, line) : value
  } catch (error) {
    if (error instanceof TemplateFault) throw error
    const reason = error instanceof TypeError ? 'it does not take that' : (error as Error).message
    const subject = describeValue(args[0])
    throw new TemplateFault(`the filter "${name}" on ${subject}: ${reason}`, line, { cause: error })
  }
}

function tested(expression: Expression & { kind: 'test' }, rendering: Rendering): boolean {
  const { name, line } = expression
  const args = expression.args.map((arg) => evaluate(arg, rendering))
  charge(readSteps(name, args, rendering.sizes), rendering, line)
  try {
    return applyTest(name, args)
  } catch (error) {
    // a test of text on something that is not text
    if (error instanceof TypeError) return false
    throw error
  }
}

function unary({ operator, operand, line }: Expression & { kind: 'unary' }, rendering: Rendering): unknown {
  if (operator === 'not') return !truth(operand, rendering)
  const value = evaluate(operand, rendering)
  if (value === undefined) return undefined
  if (typeof value !== 'number')
    throw new TemplateFault(`${operator} needs a number, not ${describeValue(value)}`, line)
  return operator === '-' ? -value : value
}

function binary(expression: Expression & { kind: 'binary' }, rendering: Rendering): unknown {
  const { operator, line } = expression
  const left = evaluate(expression.left, rendering)
  if (operator === 'and' && !isTrueIn(left, rendering)) return left
  if (operator === 'or' && isTrueIn(left, rendering)) return left
  const right = evaluate(expression.right, rendering)
  const { sizes } = rendering
  switch (operator) {
    case 'and':
    case 'or':
      return right
    case '==':
    case '!=':
      charge(comparisonSteps(left, right, sizes), rendering, line)
      return isDeepStrictEqual(left, right) === (operator === '==')
    case 'in':
      charge(containsSteps(right, left, sizes), rendering, line)
      return contains(right, left)
    case '<':
    case '>':
    case '<=':
    case '>=':
      charge(comparisonSteps(left, right, sizes), rendering, line)
      return compare(operator, left, right, line)
    default:
      if (left === undefined || right === undefined) return undefined
      return joined(operator, left, right, line, rendering)
  }
}

function contains(whole: unknown, part: unknown): boolean {
  if (typeof whole === 'string') return typeof part === 'string' && whole.includes(part)
  if (Array.isArray(whole)) return whole.some((element) => isDeepStrictEqual(element, part))
  return isObject(whole) && typeof part === 'string' && Object.hasOwn(whole, part)
}

function compare(operator: Comparison, left: unknown, right: unknown, line: number): boolean {
  if (left === undefined || right === undefined) return false
  const comparable = typeof left === typeof right && (typeof left === 'number' || typeof left === 'string')
  if (!comparable)
    throw new TemplateFault(
      `${describeValue(left)} ${operator} ${describeValue(right)} cannot be compared`,
      line,
    )
  const [a, b] = [left as number, right as number]
  if (operator === '<') return a < b
  if (operator === '>') return a > b
  return operator === '<=' ? a <= b : a >= b
}

type Arithmetic = '~' | '+' | '-' | '*' | '/' | '//' | '%' | '**'

function joined(
  operator: Arithmetic,
  left: unknown,
  right: unknown,
  line: number,
  rendering: Rendering,
): unknown {
  const isText = typeof left === 'string' || typeof right === 'string'
  if (operator === '~' || (operator === '+' && isText))
    return countText(shown(left, rendering, line) + shown(right, rendering, line), rendering, line)
  if (operator === '+' && Array.isArray(left) && Array.isArray(right)) {
    charge(left.length + right.length, rendering, line)
    return [...left, ...right]
  }
  if (typeof left === 'number' && typeof right === 'number') return arithmetic[operator](left, right)
  throw new TemplateFault(`${describeValue(left)} ${operator} ${describeValue(right)} has no meaning`, line)
}

const arithmetic: Readonly<Record<Exclude<Arithmetic, '~'>, (left: number, right: number) => number>> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '//': (left, right) => Math.floor(left / right),
  '%': (left, right) => left % right,
  '**': (left, right) => left ** right,
}

function charge(steps: number, rendering: Rendering, line: number): void {
  rendering.steps += steps
  if (rendering.steps > maxSteps) throw new TemplateFault(`the template takes over ${maxSteps} steps`, line)
}

/** Text that an expression makes counts as well as text that is written: a doubling in a loop ends here. */
function countText(text: string, rendering: Rendering, line: number): string {
  charge(textSteps(text.length), rendering, line)
  rendering.length += text.length
  if (rendering.length > maxLength) throw new TemplateFault(`the text is over ${maxLength} characters`, line)
  return text
}

/** A value as text, charged for before it is made: a list that holds another one twice, which does the same, has no end. */
function shown(value: unknown, rendering: Rendering, line: number): string {
  charge(rendering.sizes.whole(value), rendering, line)
  return show(value)
}

function truth(expression: Expression, rendering: Rendering): boolean {
  return isTrueIn(evaluate(expression, rendering), rendering)
}

/** As isTrue(); an object's members are counted once a rendering. */
function isTrueIn(value: unknown, { sizes }: Rendering): boolean {
  return isObject(value) ? sizes.own(value) > 0 : isTrue(value)
}
