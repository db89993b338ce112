// Templates over data: any template of the language, over any terms, is refused with a code or rendered, and soon.
import assert from 'node:assert/strict'
import { GraphmillError } from '../../src/errors.ts'
import { filterNames, testNames } from '../../src/prompt/template/filters.ts'
import { compileTemplate } from '../../src/prompt/template/template.ts'
import { below, chance, many, pick, type Rng, size, text } from './random.ts'
import type { FuzzTarget } from './target.ts'

const filters = [...filterNames]
const tests = [...testNames]
/** Those that make much of little, more often than the others. */
const expanding = ['batch', 'center', 'dump', 'indent', 'join', 'replace', 'slice', 'sort', 'trim']
const names = ['text', 'list', 'tree', 'number', 'x', 'y', 'missing']
const operators = ['and', 'or', 'in', '~', '+', '+', '-', '*', '/', '//', '%', '**', '==', '!=', '<', '>=']

export const templates: FuzzTarget = {
  name: 'templates',
  once(rng) {
    const source = many(1 + size(rng, 12), () => statement(rng, 3)).join('')
    const terms = { text: longText(rng), list: value(rng, 4), tree: value(rng, 6), number: number(rng) }
    try {
      const rendered = compileTemplate(source, 'fuzz').render(terms)
      assert.equal(typeof rendered, 'string')
      assert.ok(rendered.length <= 16 * 1024 * 1024)
    } catch (thrown) {
      assert.ok(thrown instanceof GraphmillError, thrown as Error)
      assert.ok(['prompt_invalid', 'prompt_render_failed'].includes(thrown.code), thrown.code)
    }
  },
}

function statement(rng: Rng, depth: number): string {
  if (depth === 0) return `{{ ${expression(rng, 2)} }}`
  const body = () => many(1 + below(rng, 2), () => statement(rng, depth - 1)).join('')
  switch (below(rng, 7)) {
    case 0:
      return `{% if ${expression(rng, depth)} %}${body()}{% else %}${body()}{% endif %}`
    case 1:
      return `{% for ${pick(rng, ['x', 'x, y'])} in ${expression(rng, depth)} %}${body()}{% endfor %}`
    case 2:
      return `{% for x in range(${pick(rng, [10, 40, 3000, 100_000])}) %}${body()}{% endfor %}`
    case 3:
      return `{% set ${pick(rng, ['x', 'y'])} = ${expression(rng, depth)} %}`
    case 4:
      // a value that grows with each turn
      return `{% set x = ${pick(rng, ['[1]', "'ab'", 'list', 'text'])} %}{% for i in range(${pick(rng, [20, 60, 3000])}) %}{% set x = ${pick(rng, ['[x, x]', 'x ~ x', 'x + x', 'x + [i]', '{a: x, b: x}', '[x]'])} %}{% endfor %}`
    case 5:
      return `{% set y %}${body()}{% endset %}`
    default:
      return `{{ ${expression(rng, depth)} }}`
  }
}

function expression(rng: Rng, depth: number): string {
  if (depth === 0) return chance(rng, 0.6) ? pick(rng, names) : literal(rng)
  const inner = () => expression(rng, depth - 1)
  switch (below(rng, 9)) {
    case 0:
    case 1:
    case 2: {
      const args = many(below(rng, 4), inner)
      const filter = pick(rng, chance(rng, 0.5) ? expanding : filters)
      return `(${inner()})|${filter}${args.length > 0 ? `(${args.join(', ')})` : ''}`
    }
    case 3:
      return `(${inner()} is ${pick(rng, tests)}${chance(rng, 0.3) ? `(${inner()})` : ''})`
    case 4:
    case 5:
      return `(${inner()} ${pick(rng, operators)} ${inner()})`
    case 6:
      return pick(rng, [
        `[${inner()}, ${inner()}]`,
        `{a: ${inner()}}`,
        `(${inner()} if ${inner()} else ${inner()})`,
      ])
    case 7:
      return pick(rng, [
        `range(${inner()}, ${inner()})`,
        `${pick(rng, names)}.items()`,
        `(${inner()})[${inner()}]`,
      ])
    default:
      return literal(rng)
  }
}

function literal(rng: Rng): string {
  return pick(rng, [
    String(number(rng)),
    "''",
    "' '",
    "'a'",
    "'9999'",
    "'1e9'",
    "'\\n'",
    '[9999]',
    '[99999999]',
    'true',
    'none',
  ])
}

const number = (rng: Rng) => pick(rng, [0, 1, 2, 7, 60, 1000, 9999, 10_001, 1e9, -1, 0.5, 1e308])

function longText(rng: Rng): string {
  const piece = chance(rng, 0.5)
    ? pick(rng, [' ', 'a', '\n', 'ab ', '\t\n', ' x'])
    : text(rng, 1 + size(rng, 10))
  return piece.repeat(size(rng, 700_000 / piece.length))
}

function value(rng: Rng, depth: number): unknown {
  const count = size(rng, depth > 3 ? 3000 : 12)
  switch (depth === 0 ? 9 : below(rng, 6)) {
    case 0:
    case 1:
      return many(count, () => value(rng, Math.min(depth - 1, 2)))
    case 2:
    case 3:
      return Object.fromEntries(
        many(count, (): [string, unknown] => [
          text(rng, 1 + size(rng, 8)),
          value(rng, Math.min(depth - 1, 2)),
        ]),
      )
    case 4:
      return longText(rng).slice(0, 1000)
    default:
      return pick(rng, [null, true, false, '', 'a', 0, 1.5, 'mill'])
  }
}
