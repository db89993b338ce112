// A template of TrustGraph as a checked tree. Its engine is ibis 3.3: `{{ print }}`, `{$ print, escaped for HTML $}`, `{# comment #}`
// and `{% tag %}`; a tag ends at the first end mark, also inside quotes.
import { Budget } from '../budget.ts'
import { TemplateFault } from '../tree.ts'
import { type Expression, parseExpression } from './expression.ts'
import { endOfBlanks, isBlank, type Separator, splitAt, splitBy, strip, words } from './text.ts'
import { type Cost, PythonFault } from './value.ts'

export type Operator = '==' | '!=' | '<' | '>' | '<=' | '>=' | 'in' | 'not in'

export interface Condition {
  readonly negated: boolean
  readonly left: Expression
  readonly comparison: { readonly operator: Operator; readonly right: Expression } | undefined
}

export type Variables = readonly (readonly [string, Expression])[]

export type Statement = { readonly line: number } & (
  | { readonly kind: 'text'; readonly text: string }
  /** The first true alternative, else the last. */
  | { readonly kind: 'print'; readonly alternatives: readonly Expression[]; readonly escaped: boolean }
  | {
      readonly kind: 'choice'
      readonly condition: Expression
      readonly yes: Expression
      readonly no: Expression
      readonly escaped: boolean
    }
  /** The first branch one of whose groups has only true conditions; `otherwise` has no groups. */
  | { readonly kind: 'if'; readonly branches: readonly Branch[]; readonly otherwise: readonly Statement[] }
  | {
      readonly kind: 'for'
      readonly names: readonly string[]
      readonly list: Expression
      readonly body: readonly Statement[]
      readonly empty: readonly Statement[]
    }
  | { readonly kind: 'with'; readonly variables: Variables; readonly body: readonly Statement[] }
  | { readonly kind: 'block'; readonly title: string; readonly body: readonly Statement[] }
  | { readonly kind: 'spaceless' | 'trim'; readonly body: readonly Statement[] }
  | { readonly kind: 'cycle'; readonly list: Expression }
  | { readonly kind: 'include' }
)

interface Branch {
  readonly line: number
  readonly groups: readonly (readonly Condition[])[]
  readonly body: readonly Statement[]
}

/** `{% else %}`, `{% elif … %}` and `{% empty %}` part the children of the tag around them; elsewhere they are nothing. */
interface Divider {
  readonly kind: 'elif' | 'else' | 'empty'
  readonly tag: Tag
}

interface Tag {
  readonly keyword: string
  readonly text: string
  readonly line: number
}

type Child = Statement | Divider

interface OpenTag {
  readonly tag: Tag
  readonly endword: string
  readonly children: Child[]
  /** The statement of its children. */
  readonly close: (children: readonly Child[]) => Statement
}

export interface TrustGraphTemplate {
  readonly body: readonly Statement[]
  /** By title; of several with the same title the one that opens last. */
  readonly blocks: ReadonlyMap<string, Block>
}

interface Block {
  /** Its number in the order of the opening tags. */
  readonly opened: number
  readonly body: readonly Statement[]
}

const endwords: Readonly<Record<string, string>> = {
  block: 'endblock',
  for: 'endfor',
  if: 'endif',
  spaceless: 'endspaceless',
  trim: 'endtrim',
  with: 'endwith',
}
const dividers: ReadonlySet<string> = new Set(['elif', 'else', 'empty'])
const endMarks: Readonly<Record<string, string>> = { '{#': '#}', '{$': '$}', '{{': '}}', '{%': '%}' }

/** Throws TemplateFault when the template is not well formed, or uses what is not supported. */
export function parseTrustGraph(source: string): TrustGraphTemplate {
  return new Parser(source).parse()
}

class Parser {
  readonly #source: string
  readonly #budget = new Budget()
  readonly #root: Child[] = []
  readonly #open: OpenTag[] = []
  readonly #blocks = new Map<string, Block>()
  #blockCount = 0
  #line = 1

  constructor(source: string) {
    this.#source = source
  }

  parse(): TrustGraphTemplate {
    let at = 0
    for (const { index, 0: mark } of this.#marks()) {
      if (index < at) continue
      this.#addText(at, index)
      const end = this.#source.indexOf(endMarks[mark]!, index + 2)
      if (end === -1) throw new TemplateFault(`the tag that begins with "${mark}" has no end`, this.#line)
      const raw = this.#source.slice(index + 2, end)
      if (mark !== '{#') this.#faults(() => this.#addTag(mark, strip(raw)))
      this.#countLines(raw)
      at = end + 2
    }
    this.#addText(at, this.#source.length)
    const open = this.#open.at(-1)
    if (open !== undefined)
      throw new TemplateFault(`"${open.tag.keyword}" has no "${open.endword}"`, open.tag.line)
    return { body: statementsOf(this.#root), blocks: this.#blocks }
  }

  #marks(): Iterable<RegExpExecArray> {
    return this.#source.matchAll(/\{[#${%]/g)
  }

  #addText(start: number, end: number): void {
    if (start === end) return
    const text = this.#source.slice(start, end)
    this.#add({ kind: 'text', text, line: this.#line })
    this.#countLines(text)
  }

  #countLines(text: string): void {
    for (let at = text.indexOf('\n'); at !== -1; at = text.indexOf('\n', at + 1)) this.#line++
  }

  #add(child: Child): void {
    const children = this.#open.at(-1)?.children ?? this.#root
    children.push(child)
  }

  #faults<T>(work: () => T, line = this.#line): T {
    try {
      return work()
    } catch (error) {
      if (error instanceof PythonFault) throw new TemplateFault(error.message, line, { cause: error })
      throw error
    }
  }

  #addTag(mark: string, text: string): void {
    const line = this.#line
    const [keyword = ''] = words(text)
    const tag = { keyword, text, line }
    if (mark !== '{%') this.#add(this.#print(text, mark === '{$'))
    else if (Object.hasOwn(endwords, keyword)) {
      this.#open.push({ tag, endword: endwords[keyword]!, children: [], close: this.#opened(tag) })
    } else if (dividers.has(keyword)) this.#add({ kind: keyword as Divider['kind'], tag })
    else if (Object.values(endwords).includes(keyword)) this.#close(keyword)
    else if (keyword === 'cycle') this.#add({ kind: 'cycle', list: this.#expression(argumentOf(tag)), line })
    else if (keyword === 'include') this.#add({ kind: 'include', line })
    else if (keyword === 'extends') throw new PythonFault('"extends" is not supported')
    else throw new PythonFault(keyword === '' ? 'the tag is empty' : `unknown tag "${keyword}"`)
  }

  #close(endword: string): void {
    const open = this.#open.at(-1)
    if (open?.endword !== endword)
      throw new PythonFault(
        open === undefined ? `unexpected "${endword}"` : `"${open.endword}" is expected, not "${endword}"`,
      )
    this.#open.pop()
    this.#add(open.close(open.children))
  }

  /** Reads the opening tag, so that its faults are found at its own line. */
  #opened(tag: Tag): OpenTag['close'] {
    const { keyword, line } = tag
    switch (keyword) {
      case 'if': {
        const groups = this.#conditions(tag)
        return (children) => this.#branches(tag, groups, children)
      }
      case 'for': {
        const loop = this.#loop(tag)
        return (children) => {
          const [body, empty] = splitAtDivider(children, 'empty')
          return { kind: 'for', ...loop, body, empty, line }
        }
      }
      case 'with': {
        const variables = this.#variables(tag)
        return (children) => ({ kind: 'with', variables, body: statementsOf(children), line })
      }
      case 'block':
        return this.#block(strip(tag.text.slice(keyword.length)), line)
      default:
        return (children) => ({
          kind: keyword as 'spaceless' | 'trim',
          body: statementsOf(children),
          line,
        })
    }
  }

  #block(title: string, line: number): OpenTag['close'] {
    const opened = this.#blockCount++
    return (children) => {
      const body = statementsOf(children)
      if (opened > (this.#blocks.get(title)?.opened ?? -1)) this.#blocks.set(title, { opened, body })
      return { kind: 'block', title, body, line }
    }
  }

  /** Each `elif` ends a branch. An `else` counts in the last branch only. */
  #branches(tag: Tag, first: Condition[][], children: readonly Child[]): Statement {
    const branches: Branch[] = []
    let [current, groups, body]: [Tag, Condition[][], Child[]] = [tag, first, []]
    for (const child of children) {
      if (child.kind !== 'elif') {
        body.push(child)
        continue
      }
      branches.push({ line: current.line, groups, body: statementsOf(body) })
      ;[current, body] = [child.tag, []]
      groups = this.#faults(() => this.#conditions(child.tag), child.tag.line)
    }
    const [own, otherwise] = splitAtDivider(body, 'else')
    branches.push({ line: current.line, groups, body: own })
    return { kind: 'if', branches, otherwise, line: tag.line }
  }

  #print(text: string, escaped: boolean): Statement {
    const line = this.#line
    const choice = splitBy(text, { signs: ['??', '::'] }, this.#cost(line))
    if (choice.found.length === 2 && choice.found[0] === '??' && choice.found[1] === '::') {
      const [condition, yes, no] = choice.parts.map((part) => this.#expression(part))
      return { kind: 'choice', condition: condition!, yes: yes!, no: no!, escaped, line }
    }
    const alternatives = this.#parts(text, or).map((part) => this.#expression(part))
    return { kind: 'print', alternatives, escaped, line }
  }

  #conditions(tag: Tag): Condition[][] {
    return this.#parts(argumentOf(tag), or).map((group) =>
      this.#parts(group, and).map((text) => this.#condition(text)),
    )
  }

  #condition(text: string): Condition {
    const afterNot = text.startsWith('not') && isBlank(text[3]) ? endOfBlanks(text, 3) : 0
    for (const start of afterNot > 0 ? [afterNot, 0] : [0]) {
      const found = findComparison(text, start)
      if (found === undefined) continue
      const { left, operator, right } = found
      return {
        negated: start > 0,
        left: this.#expression(left),
        comparison: { operator, right: this.#expression(right) },
      }
    }
    return {
      negated: afterNot > 0,
      left: this.#expression(firstLine(text.slice(afterNot))),
      comparison: undefined,
    }
  }

  #loop(tag: Tag): { readonly names: readonly string[]; readonly list: Expression } {
    const match = /^for\s+([\p{L}\p{N}_]+(?:,\s*[\p{L}\p{N}_]+)*)\s+in\s+([^\n]+)/u.exec(tag.text)
    if (match === null) throw new PythonFault('malformed "for"')
    return { names: match[1]!.split(',').map((name) => name.trim()), list: this.#expression(match[2]!) }
  }

  #variables(tag: Tag): Variables {
    const parts = splitAt(tag.text.slice(4), '&').filter((part) => part !== '')
    return parts.map((part) => {
      const equals = part.indexOf('=')
      if (equals === -1) throw new PythonFault('malformed "with"')
      return [strip(part.slice(0, equals)), this.#expression(part.slice(equals + 1))]
    })
  }

  #parts(text: string, separator: Separator): readonly string[] {
    return splitBy(text, separator, this.#cost(this.#line)).parts
  }

  #expression(text: string): Expression {
    return parseExpression(text, this.#cost(this.#line))
  }

  #cost(line: number): Cost {
    return (steps) => this.#budget.charge(steps, line)
  }
}

const or: Separator = { word: 'or', signs: ['||'] }
const and: Separator = { word: 'and', signs: ['&&'] }

/** What follows the keyword. Throws PythonFault when there is nothing. */
function argumentOf({ keyword, text }: Tag): string {
  const argument = strip(text.slice(keyword.length), 'left')
  if (argument === '') throw new PythonFault(`malformed "${keyword}"`)
  return argument
}

function statementsOf(children: readonly Child[]): Statement[] {
  return children.filter((child): child is Statement => !('tag' in child))
}

function splitAtDivider(children: readonly Child[], kind: 'else' | 'empty'): [Statement[], Statement[]] {
  const at = children.findIndex((child) => 'tag' in child && child.kind === kind)
  if (at === -1) return [statementsOf(children), []]
  return [statementsOf(children.slice(0, at)), statementsOf(children.slice(at + 1))]
}

const operator = /(==|!=|<=|>=|<|>|not in|in)/y

/** The leftmost operator between blanks; what it compares does not go on after a line's end. */
function findComparison(text: string, start: number) {
  for (let at = start; at < text.length; at++) {
    if (text[at] === '\n' && at === start) return undefined
    if (!isBlank(text[at])) continue
    const operatorAt = endOfBlanks(text, at)
    operator.lastIndex = operatorAt
    const found = operator.exec(text)?.[0]
    const after = operatorAt + (found?.length ?? 0)
    if (found !== undefined && at > start && isBlank(text[after])) {
      const right = firstLine(text.slice(endOfBlanks(text, after)))
      if (right !== '') return { left: text.slice(start, at), operator: found as Operator, right }
    }
    if (text.slice(at, operatorAt).includes('\n')) return undefined
    at = operatorAt - 1
  }
  return undefined
}

const firstLine = (text: string) => text.split('\n', 1)[0]!
