// The nodes that nunjucks reads, as a checked tree. Constructs that prompts do not need (files, macros, methods, regular
// expressions) are refused here, so the evaluator knows every node.

import { filterNames, testNames } from './filters.ts'
import { type RawNode, readNodes } from './nodes.ts'
import {
  type BinaryOperator,
  type Comparison,
  type Expression,
  forbiddenNames,
  objectMethods,
  type Statement,
  TemplateFault,
} from './tree.ts'

/** Throws TemplateFault for a template that is not well formed or uses a construct that prompts do not have. */
export function parseTemplate(source: string): readonly Statement[] {
  return statements(readNodes(source))
}

const lineOf = (node: RawNode): number => node.lineno + 1
const child = (node: RawNode, field: string): RawNode => node[field] as RawNode
const children = (node: RawNode): readonly RawNode[] => node['children'] as readonly RawNode[]

function statements(node: RawNode | null): readonly Statement[] {
  if (node === null) return []
  if (node.typename === 'NodeList' || node.typename === 'Root') return children(node).flatMap(statements)
  const line = lineOf(node)
  switch (node.typename) {
    case 'Output':
      return children(node).map((part) =>
        part.typename === 'TemplateData'
          ? { line, kind: 'text', text: part['value'] as string }
          : { line, kind: 'output', value: expression(part) },
      )
    case 'If':
      return [
        {
          line,
          kind: 'if',
          condition: expression(child(node, 'cond')),
          body: statements(child(node, 'body')),
          otherwise: statements(node['else_'] as RawNode | null),
        },
      ]
    case 'For': {
      const target = child(node, 'name')
      return [
        {
          line,
          kind: 'for',
          names: (target.typename === 'Array' ? children(target) : [target]).map(targetName),
          list: expression(child(node, 'arr')),
          body: statements(child(node, 'body')),
          otherwise: statements(node['else_'] as RawNode | null),
        },
      ]
    }
    case 'Set': {
      const value = expression((node['value'] ?? node['body']) as RawNode)
      return [{ line, kind: 'set', names: (node['targets'] as RawNode[]).map(targetName), value }]
    }
    default:
      throw new TemplateFault(`prompts have no {% ${tagNames[node.typename] ?? node.typename} %}`, line)
  }
}

/** The tags that nunjucks knows and prompts do not have. */
const tagNames: Readonly<Record<string, string>> = {
  Include: 'include',
  Import: 'import',
  FromImport: 'from',
  Extends: 'extends',
  Block: 'block',
  Macro: 'macro',
  Switch: 'switch',
  AsyncEach: 'asyncEach',
  AsyncAll: 'asyncAll',
  IfAsync: 'ifAsync',
}

function targetName(node: RawNode): string {
  if (node.typename !== 'Symbol') throw new TemplateFault('a plain name was expected', lineOf(node))
  return allowed(node['value'] as string, lineOf(node))
}

function allowed(name: string, line: number): string {
  if (forbiddenNames.has(name))
    throw new TemplateFault(`"${name}" is not for templates`, line, { term: name })
  return name
}

const binaryOperators: Readonly<Record<string, BinaryOperator>> = {
  And: 'and',
  Or: 'or',
  In: 'in',
  Concat: '~',
  Add: '+',
  Sub: '-',
  Mul: '*',
  Div: '/',
  FloorDiv: '//',
  Mod: '%',
  Pow: '**',
}

function expression(node: RawNode): Expression {
  const line = lineOf(node)
  const operator = binaryOperators[node.typename]
  if (operator !== undefined) {
    if (operator === '-') refuseHyphenName(node)
    const [left, right] = [expression(child(node, 'left')), expression(child(node, 'right'))]
    return { line, kind: 'binary', operator, left, right }
  }
  switch (node.typename) {
    case 'Literal':
      return literal(node)
    case 'Symbol':
      return name(node)
    case 'Group':
      // (a) is a; (a, b) is a tuple
      return children(node).length === 1 ? expression(children(node)[0]!) : list(node)
    case 'Array':
      return list(node)
    case 'Dict':
      return { line, kind: 'object', entries: children(node).map(entry) }
    case 'LookupVal':
      return { line, kind: 'member', target: expression(child(node, 'target')), key: memberKey(node) }
    case 'FunCall':
      return call(node)
    case 'Filter':
      return filter(node)
    case 'Is':
      return test(node)
    case 'Compare':
      return comparison(node)
    case 'InlineIf': {
      const [condition, yes] = [expression(child(node, 'cond')), expression(child(node, 'body'))]
      const no = node['else_'] === null ? undefined : expression(child(node, 'else_'))
      return { line, kind: 'choice', condition, yes, no }
    }
    case 'Not':
    case 'Neg':
    case 'Pos': {
      const unary = ({ Not: 'not', Neg: '-', Pos: '+' } as const)[node.typename]
      return { line, kind: 'unary', operator: unary, operand: expression(child(node, 'target')) }
    }
    case 'Capture':
      return { line, kind: 'capture', body: statements(child(node, 'body')) }
    case 'KeywordArgs':
      throw new TemplateFault('arguments go by place here, not by name', line)
    default:
      throw new TemplateFault(`prompts have no ${node.typename}`, line)
  }
}

/** `a-b` is a subtraction in the template language, and is hardly ever meant as one. */
function refuseHyphenName(node: RawNode): void {
  const left = lastWord(child(node, 'left'))
  const right = firstWord(child(node, 'right'))
  if (left === undefined || right === undefined) return
  if (left.lineno !== right.lineno || left.colno + left.word.length + 1 !== right.colno) return
  const written = `${left.word}-${right.word}`
  throw new TemplateFault(
    `"${written}" reads as a subtraction; write item["${written}"] for a member, "${left.word} - ${right.word}" to subtract, and name terms without "-"`,
    lineOf(node),
    { term: written },
  )
}

function lastWord(node: RawNode): { word: string; lineno: number; colno: number } | undefined {
  if (node.typename === 'Symbol')
    return { word: node['value'] as string, lineno: node.lineno, colno: node.colno }
  if (node.typename !== 'LookupVal') return undefined
  const key = child(node, 'val')
  const isWord = key.typename === 'Literal' && typeof key['value'] === 'string'
  return isWord ? { word: key['value'] as string, lineno: key.lineno, colno: key.colno } : undefined
}

function firstWord(node: RawNode): { word: string; lineno: number; colno: number } | undefined {
  if (node.typename === 'Symbol')
    return { word: node['value'] as string, lineno: node.lineno, colno: node.colno }
  if (node.typename === 'LookupVal') return firstWord(child(node, 'target'))
  if (node.typename === 'FunCall') return firstWord(child(node, 'name'))
  if (node.typename === 'Filter') return firstWord(children(child(node, 'args'))[0]!)
  return undefined
}

function literal(node: RawNode): Expression {
  const { value } = node
  if (value instanceof RegExp) throw new TemplateFault('prompts have no regular expressions', lineOf(node))
  return { line: lineOf(node), kind: 'literal', value: value as string | number | boolean | null }
}

/** The constants as templates for Python's Jinja spell them. */
const constants: ReadonlyMap<string, boolean | null> = new Map<string, boolean | null>([
  ['True', true],
  ['False', false],
  ['None', null],
])

function name(node: RawNode): Expression {
  const line = lineOf(node)
  const text = allowed(node['value'] as string, line)
  const constant = constants.get(text)
  return constant === undefined
    ? { line, kind: 'name', name: text }
    : { line, kind: 'literal', value: constant }
}

function list(node: RawNode): Expression {
  return { line: lineOf(node), kind: 'list', items: children(node).map(expression) }
}

function entry(pair: RawNode): readonly [string, Expression] {
  const key = child(pair, 'key')
  if (key.typename !== 'Symbol' && typeof key['value'] !== 'string')
    throw new TemplateFault('a key must be a name or a string', lineOf(pair))
  return [allowed(key['value'] as string, lineOf(pair)), expression(child(pair, 'value'))]
}

function memberKey(node: RawNode): Expression {
  const key = expression(child(node, 'val'))
  if (key.kind === 'literal') allowed(String(key.value), key.line)
  return key
}

function call(node: RawNode): Expression {
  const line = lineOf(node)
  const callee = child(node, 'name')
  const args = children(child(node, 'args')).map(expression)
  if (callee.typename === 'Symbol' && callee['value'] === 'range')
    return { line, kind: 'call', target: undefined, method: 'range', args }
  if (callee.typename === 'LookupVal') {
    const key = memberKey(callee)
    if (key.kind === 'literal' && objectMethods.has(String(key.value)) && args.length === 0)
      return {
        line,
        kind: 'call',
        target: expression(child(callee, 'target')),
        method: String(key.value),
        args,
      }
  }
  throw new TemplateFault('only range(…), .items(), .keys() and .values() can be called', line)
}

function filter(node: RawNode): Expression {
  const line = lineOf(node)
  const filterName = child(node, 'name')['value'] as string
  if (!filterNames.has(filterName))
    throw new TemplateFault(
      `there is no filter "${filterName}"; there are ${[...filterNames].join(', ')}`,
      line,
    )
  return { line, kind: 'filter', name: filterName, args: children(child(node, 'args')).map(expression) }
}

function test(node: RawNode): Expression {
  const line = lineOf(node)
  const right = child(node, 'right')
  const named = right.typename === 'FunCall' ? child(right, 'name') : right
  const testName = String(named['value'])
  if (!testNames.has(testName)) throw new TemplateFault(`there is no test "${testName}"`, line)
  const rest = right.typename === 'FunCall' ? children(child(right, 'args')).map(expression) : []
  return { line, kind: 'test', name: testName, args: [expression(child(node, 'left')), ...rest] }
}

/** `a < b < c` is `a < b and b < c`. */
function comparison(node: RawNode): Expression {
  const line = lineOf(node)
  let left = expression(child(node, 'expr'))
  let whole: Expression | undefined
  for (const operand of node['ops'] as readonly RawNode[]) {
    const right = expression(child(operand, 'expr'))
    const operator = (operand['type'] as string).slice(0, 2) as Comparison
    const step: Expression = { line, kind: 'binary', operator, left, right }
    whole = whole === undefined ? step : { line, kind: 'binary', operator: 'and', left: whole, right: step }
    left = right
  }
  return whole ?? left
}
