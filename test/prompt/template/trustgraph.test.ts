import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { decodeTerms } from '../../../src/prompt/catalogue/terms.ts'
import { compileTemplate } from '../../../src/prompt/template/template.ts'
import { golden, terms } from '../../support/trustgraph/templates.ts'

/** Rendered with terms as JSON texts, as they come from Python. */
const render = (source: string, terms: Record<string, string> = {}) =>
  compileTemplate(source, 'demo', 'trustgraph').render(decodeTerms(terms))

function failure(source: string, terms: Record<string, string> = {}): GraphmillError {
  try {
    render(source, terms)
  } catch (error) {
    if (error instanceof GraphmillError) return error
    throw error
  }
  throw new Error(`rendered: ${source}`)
}

describe('a template of TrustGraph', () => {
  it.each(golden)('%s', (source, expected) => {
    expect(render(source, terms)).toBe(expected)
  })

  it.each([
    ['{{ x', /line 1: the tag that begins with "\{\{" has no end/],
    ['a\n{% if x %}', /line 2: "if" has no "endif"/],
    ['{{ x|trim }}', /no filter "trim"/],
    ['{{ a-b }}', /"a-b" is no expression/],
    ['{{ x.f(y) }}', /the argument "y" is no literal/],
    ['{{ x.__class__ }}', /"__class__" is not for templates/],
    ['{% nope %}', /unknown tag "nope"/],
    ['{{ x|pprint }}', /the filter "pprint" is not supported/],
    ['{{ {1, 2} }}', /sets are not supported/],
  ])('%j is refused when it is loaded', (source, message) => {
    const error = failure(source)
    expect(error.code).toBe('prompt_invalid')
    expect(error.message).toMatch(message)
  })

  it.each([
    ['{{ missing|upper }}', /the filter "upper": it needs a text/],
    ['{{ missing.items() }}', /cannot be called/],
    ['{% if l < 1 %}{% endif %}', /cannot be compared/],
    ['{{ now() }}', /the time is not supported/],
    ['{% include "x" %}', /"include" has no templates/],
  ])('%j fails when it is rendered, as it does there', (source, message) => {
    const error = failure(source, terms)
    expect(error.code).toBe('prompt_render_failed')
    expect(error.message).toMatch(message)
  })

  it('reads NaN, and numbers that JSON.parse would change', () => {
    const json = '[NaN, -Infinity, 123456789012345678901234567890, 1E400, -0.0, 1.0]'
    expect(render('{{ x }}', { x: json })).toBe('[nan, -inf, 123456789012345678901234567890, inf, -0.0, 1.0]')
  })

  it('sees only the own members of terms, and no member of JavaScript’s values', () => {
    const source =
      '[{{ o.constructor }}{{ o.toString.name }}{{ t.length }}{{ l.map }}{{ l.length }}{{ toString }}]'
    expect(render(source, { o: '{}', t: '"x"', l: '[1]' })).toBe('[]')
    expect(render('{{ o.constructor }}', { o: '{"constructor": 1}' })).toBe('1')
  })

  it.each([
    ['nested loops', '{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}'],
    ['a long range', '{% for a in range(10000000000000) %}x{% endfor %}'],
    ['a text that grows', `{{ t.replace('a', '${'b'.repeat(1000)}') }}`],
    ['a search in a loop', "{% for a in range(99999) %}{{ t.find('b') }}{% endfor %}"],
    ['a text stripped in a loop', '{% for a in range(99999) %}{{ t.strip() }}{% endfor %}'],
    ['a character in a loop', '{% for a in range(99999) %}{{ t.99999 }}{% endfor %}'],
    [
      'a list compared in a loop',
      '{% for a in t.split("a") %}{% if t.split("a") == t.split("a") %}{% endif %}{% endfor %}',
    ],
    ['quotes that do not close', `{{ ${'"\\'.repeat(50_000)} }}`],
    ['tags nested deeply', '{% if a %}'.repeat(20_000) + '{% endif %}'.repeat(20_000)],
  ])('%s ends in an error within bounds', (_, source) => {
    const before = process.cpuUsage()
    expect(['prompt_invalid', 'prompt_render_failed']).toContain(
      failure(source, { t: JSON.stringify('a'.repeat(100_000)), a: '1' }).code,
    )
    const { user, system } = process.cpuUsage(before)
    expect((user + system) / 1e6).toBeLessThan(10)
  })
})
