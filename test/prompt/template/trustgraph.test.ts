import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { decodeTerms } from '../../../src/prompt/catalogue/terms.ts'
import { compileTemplate } from '../../../src/prompt/template/template.ts'

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

const terms = {
  text: '"It grinds.\\n"',
  l: '[1, 2.0, "it\'s", null, true]',
  d: '{"10": "ten", "2": {"a": []}, "items": 5, "name": "mill"}',
  mills: '[{"name": "Ada", "kind": null, "wheels": 2}, {"name": "Ben"}]',
  n: '1e16',
  empty: '""',
}

/** Each was rendered by TrustGraph 2.11.1's engine first. */
const golden: readonly (readonly [template: string, text: string])[] = [
  ['{{text}}|{{ text }}', 'It grinds.\n|It grinds.\n'],
  ['{{ l }}', '[1, 2.0, "it\'s", None, True]'],
  ['{{ d }}', "{'10': 'ten', '2': {'a': []}, 'items': 5, 'name': 'mill'}"],
  ['{{ d.10 }} {{ d.name.0 }} {{ l.2 }} {{ d.2.a }}', "ten m it's []"],
  ['[{{ missing }}{{ missing.a.b }}{{ d.name.x }}{{ l.9 }}{{ constructor }}]', '[]'],
  ['{{ n }} {{ 1 }} {{ 1.50 }} {{ None }} {{ True }}', '1e+16 1 1.5 None True'],
  ['{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}', "10=ten;2={'a': []};items=5;name=mill;"],
  [
    '{% for m in mills %}{{ loop.index }}/{{ loop.count }}/{{ m.wheels }}{{ m.kind }} {% endfor %}',
    '0/1/2None 1/2/ ',
  ],
  ['{% for m in mills %}a{% else %}b{% endfor %}', 'abab'],
  ['{% for m in missing %}a{% else %}b{% endfor %}', ''],
  ['{% for m in missing %}a{% empty %}b{% endfor %}', 'b'],
  ['{% for m in 5 %}a{% empty %}b{% endfor %}', 'b'],
  ['{% for m in mills %}{% if loop.is_last %}{{ loop.length }}{% endif %}{% endfor %}', '2'],
  ['{% if l and not missing %}yes{% elif l %}x{% else %}no{% endif %}', 'yes'],
  ["{% if 'grind' in text && d.10 == 'ten' %}yes{% endif %}", 'yes'],
  ['{% if missing == missing %}yes{% else %}no{% endif %}', 'no'],
  ['{% if l.0 == True and l.0 < l.1 %}yes{% endif %}', 'yes'],
  ["{{ missing or empty or 'last' }} {{ l ?? 'yes' :: 'no' }}", 'last yes'],
  ["{{ empty|default('none') }} {{ text|len }} {{ l|str|len }} {{ d|len }}", 'none 11 28 4'],
  [
    "{{ l|join('-') }} {{ l|first }} {{ l|last }} {{ l|slice(1, 3) }}",
    '1-2.0-it\'s-None-True 1 True [2.0, "it\'s"]',
  ],
  ['{{ text.strip()|upper }}', 'IT GRINDS.'],
  ["{% with a = l.0 & b = 'x' %}{{ a }}{{ b }}{% endwith %}{{ a }}", '1x'],
  ['{% trim %}  {{ text }} {% endtrim %}|', 'It grinds.|'],
  ["{% for x in l %}{% cycle 'a', 'b' %}{% endfor %}", 'ababa'],
  ['{# {{ text }} #}{$ l $}', '[1, 2.0, &quot;it&#x27;s&quot;, None, True]'],
  ["{{ 'a' 'b' }} {{ 'a', 1 }} {{ {'k': [1, (2,)]} }}", "ab ('a', 1) {'k': [1, (2,)]}"],
  ['{{ range(1, 7, 2) }} {% for i in range(3) %}{{ i }}{% endfor %}', 'range(1, 7, 2) 012'],
  [
    "{{ d.get('name') }} {{ d.get('no', 'x') }} {{ is_defined('d.name') }} {{ d.keys() }}",
    "mill x True dict_keys(['10', '2', 'items', 'name'])",
  ],
  ['{%if l%}{ {a} }}{%endif%}', '{ {a} }}'],
]

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
