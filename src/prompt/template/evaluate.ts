// Renders a template's tree over terms. Undefined flows through every operation, and is an error when it would be written or
// looped over. Work and output are bounded, so that no template can delay other messages.
import { isDeepStrictEqual } from 'node:util'
import { isObject } from '../../is-object.ts'
import { Budget } from './budget.ts'
import { comparisonSteps, containsSteps, madeSteps, readSteps, Sizes, textSteps } from './cost.ts'
import { applyFilter, applyTest, filterArguments } from './filters.ts'
import {
  type Arithmetic,
  type Comparison,
  type Expression,
  forbiddenNames,
  type Statement,
  TemplateFault,
} from './tree.ts'
import { describeValue, isTrue, member, show } from './value.ts'

const maxRange = 100_000

/** What was found to be undefined. */
interface MissingName {
  readonly name: string
  readonly isTerm: boolean
}

/** The text. Throws TemplateFault. */
export function renderTemplate(body: readonly Statement[], terms: ReadonlyMap<string, unknown>): string {
  return new Rendering(terms).render(body)
}

/** One rendering. */
class Rendering {
  readonly #terms: ReadonlyMap<string, unknown>
  /** Innermost last. A `for` opens one; `set` writes into the one that has the name, else into the last. */
  readonly #frames: Map<string, unknown>[] = [new Map()]
  readonly #sizes = new Sizes()
  readonly #budget = new Budget()
  /** The last undefined name, for the message. */
  #missing: MissingName | undefined

  constructor(terms: ReadonlyMap<string, unknown>) {
    this.#terms = terms
  }

  render(body: readonly Statement[]): string {
    let text = ''
    for (const statement of body) text += this.#renderStatement(statement)
    return text
  }

  #renderStatement(statement: Statement): string {
    this.#charge(1, statement.line)
    switch (statement.kind) {
      case 'text':
        return this.#countText(statement.text, statement.line)
      case 'output':
        return this.#countText(this.#shown(this.#needed(statement.value), statement.line), statement.line)
      case 'if': {
        const condition = this.#truth(statement.condition)
        return this.render(condition ? statement.body : statement.otherwise)
      }
      case 'for':
        return this.#renderFor(statement)
      case 'set': {
        const value = this.#evaluate(statement.value)
        for (const name of statement.names) this.#assign(name, value)
        return ''
      }
      default:
        return statement satisfies never
    }
  }

  #renderFor(statement: Statement & { kind: 'for' }): string {
    const { names, line } = statement
    const list = this.#needed(statement.list)
    this.#charge(typeof list === 'string' ? list.length : this.#sizes.own(list), line)
    const elements = elementsOf(list, names.length, line)
    if (elements.length === 0) return this.render(statement.otherwise)
    const frame = new Map<string, unknown>()
    this.#frames.push(frame)
    let text = ''
    for (const [index, element] of elements.entries()) {
      this.#charge(1, line)
      frame.set('loop', loopState(index, elements.length))
      for (const [place, value] of unpack(element, names, line).entries()) frame.set(names[place]!, value)
      text += this.render(statement.body)
    }
    this.#frames.pop()
    return text
  }

  #assign(name: string, value: unknown): void {
    const frame = this.#frames.findLast((candidate) => candidate.has(name)) ?? this.#frames.at(-1)!
    frame.set(name, value)
  }

  /** A value that must not be undefined. */
  #needed(expression: Expression): unknown {
    this.#missing = undefined
    const value = this.#evaluate(expression)
    if (value !== undefined) return value
    // #evaluate may have set it, which the compiler cannot see.
    const missing = this.#missing as MissingName | undefined
    if (missing === undefined)
      throw new TemplateFault(`${describe(expression)} has no value`, expression.line)
    const what = missing.isTerm ? `the term "${missing.name}" is not given` : `"${missing.name}" has no value`
    throw new TemplateFault(what, expression.line, { term: missing.name })
  }

  #evaluate(expression: Expression): unknown {
    this.#charge(1, expression.line)
    switch (expression.kind) {
      case 'literal':
        return expression.value
      case 'name':
        return this.#lookUp(expression.name)
      case 'member':
        return this.#memberOf(expression)
      case 'call':
        return this.#callOf(expression)
      case 'filter':
        return this.#filtered(expression)
      case 'test':
        return this.#tested(expression)
      case 'binary':
        return this.#binary(expression)
      case 'unary':
        return this.#unary(expression)
      case 'choice':
        if (this.#truth(expression.condition)) return this.#evaluate(expression.yes)
        return expression.no === undefined ? '' : this.#evaluate(expression.no)
      case 'list':
        return this.#allDefined(expression.items)
      case 'object': {
        const values = this.#allDefined(expression.entries.map(([, value]) => value))
        return values && Object.fromEntries(expression.entries.map(([key], place) => [key, values[place]]))
      }
      case 'capture':
        return this.render(expression.body)
      default:
        return expression satisfies never
    }
  }

  /** The values, or undefined when one of them is. */
  #allDefined(expressions: readonly Expression[]): unknown[] | undefined {
    const values: unknown[] = []
    for (const expression of expressions) {
      const value = this.#evaluate(expression)
      if (value === undefined) return undefined
      values.push(value)
    }
    return values
  }

  #lookUp(name: string): unknown {
    const frame = this.#frames.findLast((candidate) => candidate.has(name))
    const value = frame === undefined ? this.#terms.get(name) : frame.get(name)
    if (value === undefined) this.#missing = { name, isTerm: frame === undefined }
    return value
  }

  #memberOf(expression: Expression & { kind: 'member' }): unknown {
    const target = this.#evaluate(expression.target)
    if (target === undefined) return undefined
    const key = this.#evaluate(expression.key)
    if (key === undefined) return undefined
    if (typeof key === 'string') this.#charge(textSteps(key.length), expression.line)
    if (typeof key === 'string' && forbiddenNames.has(key))
      throw new TemplateFault(`"${key}" is not for templates`, expression.line, { term: key })
    const value = member(target, key)
    if (value === undefined) this.#missing = { name: describe(expression), isTerm: false }
    return value
  }

  #callOf(expression: Expression & { kind: 'call' }): unknown {
    const { target, method, line } = expression
    if (target === undefined) return this.#range(expression)
    const value = this.#evaluate(target)
    if (value === undefined) return undefined
    if (value === null) return []
    if (!isObject(value))
      throw new TemplateFault(`${describe(target)} is ${describeValue(value)} and has no .${method}()`, line)
    this.#charge(this.#sizes.own(value), line)
    if (method === 'items') return Object.entries(value)
    return method === 'keys' ? Object.keys(value) : Object.values(value)
  }

  /** range(end), range(start, end), range(start, end, step): as in Python. */
  #range({ args, line }: Expression & { kind: 'call' }): number[] | undefined {
    const values = this.#allDefined(args)
    if (values === undefined) return undefined
    const [first, second, step = 1] = values
    const [start, end] = second === undefined ? [0, first] : [first, second]
    if (![start, end, step].every(Number.isSafeInteger) || step === 0 || values.length > 3)
      throw new TemplateFault('range takes one to three whole numbers, the step not 0', line)
    const length = Math.max(0, Math.ceil(((end as number) - (start as number)) / (step as number)))
    if (length > maxRange) throw new TemplateFault(`range is longer than ${maxRange}`, line)
    this.#charge(length, line)
    return Array.from({ length }, (_, index) => (start as number) + index * (step as number))
  }

  #filtered(expression: Expression & { kind: 'filter' }): unknown {
    const { name, line } = expression
    const takesUndefined = name === 'default' || name === 'd'
    const args = takesUndefined
      ? expression.args.map((arg) => this.#evaluate(arg))
      : this.#allDefined(expression.args)
    if (args === undefined) return undefined
    try {
      const sizes = this.#sizes
      const checked = filterArguments(name, args)
      this.#charge(readSteps(name, checked, sizes), line)
      this.#charge(madeSteps(name, checked, sizes), line)
      const value = applyFilter(name, checked)
      return typeof value === 'string' ? this.#countText(value, line) : value
    } catch (error) {
      if (error instanceof TemplateFault) throw error
      const reason = error instanceof TypeError ? 'it does not take that' : (error as Error).message
      const subject = describeValue(args[0])
      throw new TemplateFault(`the filter "${name}" on ${subject}: ${reason}`, line, { cause: error })
    }
  }

  #tested(expression: Expression & { kind: 'test' }): boolean {
    const { name, line } = expression
    const args = expression.args.map((arg) => this.#evaluate(arg))
    this.#charge(readSteps(name, args, this.#sizes), line)
    try {
      return applyTest(name, args)
    } catch (error) {
      // A test for texts got another value.
      if (error instanceof TypeError) return false
      throw error
    }
  }

  #unary({ operator, operand, line }: Expression & { kind: 'unary' }): unknown {
    if (operator === 'not') return !this.#truth(operand)
    const value = this.#evaluate(operand)
    if (value === undefined) return undefined
    if (typeof value !== 'number')
      throw new TemplateFault(`${operator} needs a number, not ${describeValue(value)}`, line)
    return operator === '-' ? -value : value
  }

  #binary(expression: Expression & { kind: 'binary' }): unknown {
    const { operator, line } = expression
    const left = this.#evaluate(expression.left)
    if (operator === 'and' && !this.#isTrueIn(left)) return left
    if (operator === 'or' && this.#isTrueIn(left)) return left
    const right = this.#evaluate(expression.right)
    const sizes = this.#sizes
    switch (operator) {
      case 'and':
      case 'or':
        return right
      case '==':
      case '!=':
        this.#charge(comparisonSteps(left, right, sizes), line)
        return isDeepStrictEqual(left, right) === (operator === '==')
      case 'in':
        this.#charge(containsSteps(right, left, sizes), line)
        return contains(right, left)
      case '<':
      case '>':
      case '<=':
      case '>=':
        this.#charge(comparisonSteps(left, right, sizes), line)
        return compare(operator, left, right, line)
      default:
        if (left === undefined || right === undefined) return undefined
        return this.#joined(operator, left, right, line)
    }
  }

  #joined(operator: Arithmetic, left: unknown, right: unknown, line: number): unknown {
    const isText = typeof left === 'string' || typeof right === 'string'
    if (operator === '~' || (operator === '+' && isText))
      return this.#countText(this.#shown(left, line) + this.#shown(right, line), line)
    if (operator === '+' && Array.isArray(left) && Array.isArray(right)) {
      this.#charge(left.length + right.length, line)
      return [...left, ...right]
    }
    if (typeof left === 'number' && typeof right === 'number') return arithmetic[operator](left, right)
    throw new TemplateFault(`${describeValue(left)} ${operator} ${describeValue(right)} has no meaning`, line)
  }

  #charge(steps: number, line: number): void {
    this.#budget.charge(steps, line)
  }

  #countText(text: string, line: number): string {
    return this.#budget.countText(text, line)
  }

  /** A value as text, charged before it is made: nested lists that hold the same list twice could be endless. */
  #shown(value: unknown, line: number): string {
    this.#charge(this.#sizes.whole(value), line)
    return show(value)
  }

  #truth(expression: Expression): boolean {
    return this.#isTrueIn(this.#evaluate(expression))
  }

  /** Like isTrue(), but an object's members are counted once for each rendering. */
  #isTrueIn(value: unknown): boolean {
    return isObject(value) ? this.#sizes.own(value) > 0 : isTrue(value)
  }
}

/** A list's elements; an object's keys, or its entries for two names; the characters of a text. */
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

const arithmetic: Readonly<Record<Exclude<Arithmetic, '~'>, (left: number, right: number) => number>> = {
  '+': (left, right) => left + right,
  '-': (left, right) => left - right,
  '*': (left, right) => left * right,
  '/': (left, right) => left / right,
  '//': (left, right) => Math.floor(left / right),
  '%': (left, right) => left % right,
  '**': (left, right) => left ** right,
}
