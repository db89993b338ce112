// Renders a template of TrustGraph as its engine does: an undefined name is nothing, and values are written as Python writes them.
import { parsePythonJson } from '../../../formats/python-json.ts'
import { jsonTextOf, type Terms } from '../../catalogue/terms.ts'
import { Budget } from '../budget.ts'
import { TemplateFault } from '../tree.ts'
import { type Expression, filtered } from './expression.ts'
import { escapeHtml, spaceless } from './filters.ts'
import { attribute, hasAttribute } from './methods.ts'
import type { Condition, Statement, TrustGraphTemplate } from './parse.ts'
import { strip } from './text.ts'
import {
  Callable,
  type Cost,
  compare,
  contains,
  elements,
  elementsOf,
  equals,
  fromJson,
  isTrue,
  item,
  PythonFault,
  Range,
  show,
  typeOf,
  type Value,
} from './value.ts'

/** The text. Throws TemplateFault. */
export function renderTrustGraph({ body, blocks }: TrustGraphTemplate, terms: Terms): string {
  return new Rendering(pythonValues(terms), blocks).render(body)
}

function pythonValues(terms: Terms): ReadonlyMap<string, Value> {
  const valueFor = (name: string): Value => {
    const text = jsonTextOf(terms, name)
    return text === undefined ? fromJson(terms[name]) : parsePythonJson(text)
  }
  return new Map(Object.keys(terms).map((name) => [name, valueFor(name)]))
}

class Rendering {
  /** Innermost last: the engine's own names, the terms, and what loops and `with` define. */
  readonly #frames: ReadonlyMap<string, Value>[]
  readonly #blocks: TrustGraphTemplate['blocks']
  readonly #budget = new Budget()
  /** The elements of each `cycle`, and which comes next. */
  readonly #cycles = new Map<Statement, { readonly items: readonly Value[]; next: number }>()
  #line = 0
  readonly #cost: Cost = (steps) => this.#budget.charge(steps, this.#line)

  constructor(terms: ReadonlyMap<string, Value>, blocks: TrustGraphTemplate['blocks']) {
    this.#frames = [this.#builtIns(), terms]
    this.#blocks = blocks
  }

  render(body: readonly Statement[]): string {
    let text = ''
    for (const statement of body) text += this.#renderStatement(statement)
    return text
  }

  #renderStatement(statement: Statement): string {
    this.#line = statement.line
    this.#cost(1)
    try {
      return this.#rendered(statement)
    } catch (error) {
      if (error instanceof PythonFault) throw new TemplateFault(error.message, this.#line, { cause: error })
      throw error
    }
  }

  #rendered(statement: Statement): string {
    switch (statement.kind) {
      case 'text':
        return this.#counted(statement.text)
      case 'print':
        return this.#written(this.#firstTrue(statement.alternatives), statement.escaped)
      case 'choice': {
        const branch = isTrue(this.#value(statement.condition)) ? statement.yes : statement.no
        return this.#written(this.#value(branch), statement.escaped)
      }
      case 'if':
        return this.render(this.#chosen(statement))
      case 'for':
        return this.#loop(statement)
      case 'with':
        return this.#with(statement)
      case 'block':
        return this.#within(
          new Map([['super', new Callable('<function super at 0x7f0000000000>', () => '')]]),
          () => this.render(this.#blocks.get(statement.title)!.body),
        )
      case 'trim':
        return strip(this.render(statement.body))
      case 'spaceless':
        return strip(spaceless(this.render(statement.body), this.#cost))
      case 'cycle':
        return this.#cycle(statement)
      case 'include':
        throw new PythonFault('"include" has no templates to take from')
      default:
        return statement satisfies never
    }
  }

  #firstTrue(alternatives: readonly Expression[]): Value {
    let value: Value
    for (const alternative of alternatives) {
      value = this.#value(alternative)
      if (isTrue(value)) break
    }
    return value
  }

  #written(value: Value, escaped: boolean): string {
    const text = show(value, this.#cost)
    return this.#counted(escaped ? escapeHtml(text, true, this.#cost) : text)
  }

  #chosen({ branches, otherwise }: Statement & { kind: 'if' }): readonly Statement[] {
    for (const { line, groups, body } of branches) {
      this.#line = line
      if (groups.some((group) => group.every((condition) => this.#holds(condition)))) return body
    }
    return otherwise
  }

  #holds({ negated, left, comparison }: Condition): boolean {
    const value = this.#value(left)
    const holds =
      comparison === undefined
        ? isTrue(value)
        : this.#compares(value, comparison.operator, this.#value(comparison.right))
    return holds !== negated
  }

  #compares(left: Value, operator: NonNullable<Condition['comparison']>['operator'], right: Value): boolean {
    switch (operator) {
      case '==':
        return equals(left, right, this.#cost)
      case '!=':
        return !equals(left, right, this.#cost)
      case 'in':
        return contains(right, left, this.#cost)
      case 'not in':
        return !contains(right, left, this.#cost)
      case '<':
        return compare(left, right, this.#cost) < 0
      case '>':
        return compare(left, right, this.#cost) > 0
      case '<=':
        return compare(left, right, this.#cost) <= 0
      case '>=':
        return compare(left, right, this.#cost) >= 0
      default:
        return operator satisfies never
    }
  }

  #loop({ names, list, body, empty, line }: Statement & { kind: 'for' }): string {
    const value = this.#value(list)
    const found = isTrue(value) ? elementsOf(value, this.#cost) : undefined
    if (found === undefined) return this.render(empty)
    const length = BigInt(found.length)
    let text = ''
    for (const [place, element] of found.entries()) {
      this.#line = line
      this.#cost(1)
      const frame = new Map<string, Value>(this.#unpacked(element, names))
      const index = BigInt(place)
      frame.set(
        'loop',
        new Map<string, Value>([
          ['index', index],
          ['count', index + 1n],
          ['length', length],
          ['is_first', place === 0],
          ['is_last', place === found.length - 1],
          ['parent', frame.has('loop') ? frame.get('loop') : (this.#named('loop') ?? null)],
        ]),
      )
      text += this.#within(frame, () => this.render(body))
    }
    return text
  }

  /** Names without an element stay as they are outside, and elements without a name are left out. */
  #unpacked(element: Value, names: readonly string[]): (readonly [string, Value])[] {
    if (names.length === 1) return [[names[0]!, element]]
    const parts = elements(element, this.#cost)
    return names.slice(0, parts.length).map((name, place) => [name, parts[place]])
  }

  #with({ variables, body }: Statement & { kind: 'with' }): string {
    const frame = new Map<string, Value>()
    return this.#within(frame, () => {
      for (const [name, expression] of variables) frame.set(name, this.#value(expression))
      return this.render(body)
    })
  }

  #within(frame: ReadonlyMap<string, Value>, work: () => string): string {
    this.#frames.push(frame)
    const text = work()
    this.#frames.pop()
    return text
  }

  #cycle(statement: Statement & { kind: 'cycle' }): string {
    let state = this.#cycles.get(statement)
    if (state === undefined) {
      state = { items: elementsOf(this.#value(statement.list), this.#cost) ?? [], next: 0 }
      this.#cycles.set(statement, state)
    }
    if (state.items.length === 0) return ''
    return this.#written(state.items[state.next++ % state.items.length], false)
  }

  #value(expression: Expression): Value {
    if (expression.kind === 'literal') return expression.value
    const { path, args, filters } = expression
    const target = this.#resolved(path)
    const value = args === undefined ? target : this.#called(path, target, args)
    const result = filtered(value, filters, this.#cost)
    if (typeof result === 'string' && (args !== undefined || filters.length > 0)) this.#counted(result)
    return result
  }

  #called(path: readonly string[], target: Value, args: readonly Value[]): Value {
    if (!(target instanceof Callable))
      throw new PythonFault(`"${path.join('.')}" is ${typeOf(target)} and cannot be called`)
    this.#cost(1)
    return target.call(args)
  }

  #resolved(path: readonly string[]): Value {
    const [first = '', ...members] = path
    let value = this.#named(first)
    for (const member of members) {
      this.#cost(1)
      if (value === undefined) return undefined
      if (hasAttribute(value, member)) value = attribute(value, member, this.#cost)
      else value = this.#element(value, member)
    }
    return value
  }

  #named(name: string): Value {
    const frame = this.#frames.findLast((candidate) => candidate.has(name))
    return frame?.get(name)
  }

  /** The member of a dict, or the element at a number; undefined when there is none. */
  #element(value: Value, member: string): Value {
    if (value instanceof Map) return value.get(member)
    if (!/^\p{Nd}+(_\p{Nd}+)*$/u.test(member)) return undefined
    try {
      return item(value, BigInt(member.replaceAll('_', '')), this.#cost)
    } catch (error) {
      if (error instanceof PythonFault || error instanceof SyntaxError) return undefined
      throw error
    }
  }

  #counted(text: string): string {
    return this.#budget.countText(text, this.#line)
  }

  #builtIns(): ReadonlyMap<string, Value> {
    const builtIn = (name: string, call: Callable['call']) =>
      [name, new Callable(`<function ${name} at 0x7f0000000000>`, call)] as const
    const unsupported = () => {
      throw new PythonFault('the time is not supported')
    }
    return new Map<string, Value>([
      builtIn('now', unsupported),
      builtIn('is_defined', ([name]) => this.#isDefined(name)),
      builtIn('range', rangeOf),
    ])
  }

  #isDefined(name: Value): boolean {
    if (typeof name !== 'string') throw new PythonFault('is_defined() takes a name as text')
    const path = name.split('.')
    const isNamed = this.#frames.some((frame) => frame.has(path[0]!))
    if (!isNamed) return false
    const [last, parent] = [path.at(-1)!, this.#resolved(path.slice(0, -1))]
    if (path.length === 1 || hasAttribute(parent, last)) return true
    return parent instanceof Map ? parent.has(last) : this.#element(parent, last) !== undefined
  }
}

/** range(stop), range(start, stop), range(start, stop, step) */
function rangeOf(args: readonly Value[]): Range {
  const [first, second, step = 1n] = args
  const [start, stop] = second === undefined ? [0n, first] : [first, second]
  if (args.length > 3 || ![start, stop, step].every((bound) => typeof bound === 'bigint') || step === 0n)
    throw new PythonFault('range takes one to three whole numbers, the step not 0')
  return new Range(start as bigint, stop as bigint, step as bigint)
}
