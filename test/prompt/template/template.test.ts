import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { compileTemplate } from '../../../src/prompt/template/template.ts'

const render = (source: string, terms: Record<string, unknown> = {}) =>
  compileTemplate(source, 'demo').render(terms)

/** The error that rendering ends in. */
function failure(source: string, terms: Record<string, unknown> = {}): GraphmillError {
  try {
    render(source, terms)
  } catch (error) {
    if (error instanceof GraphmillError) return error
    throw error
  }
  throw new Error(`rendered: ${source}`)
}

describe('the constructs of TrustGraph’s templates', () => {
  const ontology = {
    classes: {
      Mill: { comment: 'It grinds.', subclass_of: 'Building', labels: ['mill', 'Mühle'] },
      Person: { comment: null, subclass_of: null, labels: [] },
    },
    edges: [
      ['Mill', 'grinds', { unit: 'kg' }],
      ['Person', 'owns', { unit: null }],
    ],
  }

  it('writes a variable and a dotted member', () => {
    expect(render('{{text}} / {{ classes.Mill.comment }}', { text: 'a b', ...ontology })).toBe(
      'a b / It grinds.',
    )
  })

  it('reads a number after a dot as an index', () => {
    expect(
      render('{{ edges.0.1 }} {{ edges.1.2.unit }}{{ edges.0.2.unit }} {{ edges[1].0 }}', ontology),
    ).toBe('grinds kg Person')
    expect(render('{% for edge in edges %}{{edge.0}}-{{edge.1}};{% endfor %}', ontology)).toBe(
      'Mill-grinds;Person-owns;',
    )
  })

  it('does not change a number after a dot in text, in strings and in raw blocks', () => {
    expect(render('x.0 {{ "x.0" }}{% raw %}{{ x.0 }}{% endraw %} {{ 1.5 }}')).toBe('x.0 x.0{{ x.0 }} 1.5')
  })

  it('unpacks the pairs of .items(), nested as deeply as wanted', () => {
    const tree = { a: { b: { c: { d: 1 }, e: { f: 2 } } } }
    const source =
      '{% for k, v in tree.items() %}{% for l, w in v.items() %}{% for m, x in w.items() %}{% for n, y in x.items() %}{{k}}{{l}}{{m}}{{n}}{{y}} {% endfor %}{% endfor %}{% endfor %}{% endfor %}'
    expect(render(source, { tree })).toBe('abcd1 abef2 ')
  })

  it('gives .keys() and .values() too', () => {
    expect(render("{{ d.keys()|join(', ') }}: {{ d.values()|join(', ') }}", { d: { a: 1, b: 'x' } })).toBe(
      'a, b: 1, x',
    )
  })

  it('gives what the object owns under such a name, and still has the methods', () => {
    const d = { items: ['x', 'y'], keys: 'K' }
    expect(render('{{ d.keys }}{% for i in d.items %}{{ i }}{% endfor %}', { d })).toBe('Kxy')
    expect(render('{% for k, v in d.items() %}{{ k }};{% endfor %}', { d })).toBe('items;keys;')
  })

  it('joins a list', () => {
    expect(
      render("{{ classes.Mill.labels|join(', ') }}[{{ classes.Person.labels|join(', ') }}]", ontology),
    ).toBe('mill, Mühle[]')
  })

  it('evaluates an if with and, or, not, and with undefined terms', () => {
    const source =
      '{% for id, c in classes.items() %}{{ id }}{% if c.comment and c.subclass_of %}: {{ c.comment }}{% endif %};{% endfor %}'
    expect(render(source, ontology)).toBe('Mill: It grinds.;Person;')
    expect(render('{% if a and b %}1{% elif not c %}2{% else %}3{% endif %}', { a: 1 })).toBe('2')
    expect(render('{% if a.b.c or d.0.e or f.items() %}1{% else %}2{% endif %}')).toBe('2')
  })

  it('takes empty lists, empty objects, 0 and empty text as false, like Python', () => {
    const source = '{% if x %}yes{% else %}no{% endif %}'
    expect(
      [[], {}, 0, '', null, false, [0], { a: 0 }, 'false', -1].map((x) => render(source, { x })),
    ).toEqual(['no', 'no', 'no', 'no', 'no', 'no', 'yes', 'yes', 'yes', 'yes'])
  })
})

describe('what is written', () => {
  it('writes objects, lists and booleans as JSON, null as nothing, and text as it is', () => {
    const terms = {
      o: { a: [1, true, null], 'b"': "it's" },
      l: ['x', { y: 2 }],
      t: true,
      f: false,
      n: null,
      s: '<a href="x">&',
    }
    expect(render('{{ o }}|{{ l }}|{{ t }}|{{ f }}|{{ n }}|{{ s }}', terms)).toBe(
      '{"a":[1,true,null],"b\\"":"it\'s"}|["x",{"y":2}]|true|false||<a href="x">&',
    )
    expect(render("{{ l|join('; ') }}", terms)).toBe('x; {"y":2}')
  })

  it('never reads a term as template', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'binary' }),
        fc.constantFrom('{{ x }}', '{% raw %}', '{#', '{% include "/etc/passwd" %}'),
        (text, trap) => {
          const x = `${trap}${text}\n"${trap}'\ud83d`
          expect(render('a\n{{ x }}b{% if x %}{{ x }}{% endif %}', { x })).toBe(`a\n${x}b${x}`)
          expect(JSON.parse(render('{{ o }}', { o: { [x]: [x] } }))).toEqual({ [x]: [x] })
        },
      ),
    )
  })

  it('has what nunjucks has beside: comments, white space control, set, raw, loop, inline if, tests', () => {
    expect(render('a {#- gone -#} b {{- 1 -}} c')).toBe('ab1c')
    expect(render('{% set y = x ~ "!" %}{{ y }}{% set z %}<{{ x }}>{% endset %}{{ z }}', { x: 1 })).toBe(
      '1!<1>',
    )
    expect(
      render(
        '{% for i in [1, 2] %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %},{% endif %}{% endfor %}',
      ),
    ).toBe('1/2,2/2')
    expect(render('{% for i in [] %}x{% else %}none{% endfor %}')).toBe('none')
    expect(render('{{ "yes" if x is defined else "no" }}{{ x|default("-") }}')).toBe('no-')
    expect(render('{% set n = 1 %}{% for i in range(3) %}{% set n = n + i %}{% endfor %}{{ n }}')).toBe('4')
    expect(
      render('{{ 7 // 2 }} {{ 2 ** 3 }} {{ -1 }} {{ 1 < 2 <= 2 }} {{ "a" in ["a"] }} {{ True and None }}'),
    ).toBe('3 8 -1 true true ')
  })
})

describe('a template that fails', () => {
  it('names the prompt, the line and the term that is not given', () => {
    const error = failure('one\ntwo {{ missing }}')
    expect(error.code).toBe('prompt_render_failed')
    expect(error.details).toEqual({ prompt: 'demo', line: 2, term: 'missing' })
    expect(error.message).toBe('prompt "demo", line 2: the term "missing" is not given')
  })

  it('treats undefined as an error when it would be written or looped over', () => {
    const sources = [
      '{{ x }}',
      '{{ d.x }}',
      '{{ d.list.7 }}',
      '{{ x.y.z }}',
      '{{ "a" ~ x }}',
      '{{ x|join(", ") }}',
      '{{ [x] }}',
      '{{ x.items() }}',
      '{{ d.list|join(x) }}',
      '{% for a in x %}{% endfor %}',
      '{% for a, b in d.x.items() %}{% endfor %}',
      '{% for a in d.x|sort %}{% endfor %}',
    ]
    for (const source of sources) {
      const error = failure(source, { d: { list: [1] } })
      expect(error.code, source).toBe('prompt_render_failed')
      expect(error.details['term'], source).toBeTruthy()
    }
  })

  it('loops over null as over nothing', () => {
    expect(render('{% for a in x %}1{% endfor %}{% for a, b in x.items() %}2{% endfor %}', { x: null })).toBe(
      '',
    )
  })

  it('says what cannot be looped over, unpacked or compared', () => {
    expect(failure('{% for a in x %}{% endfor %}', { x: 3 }).message).toMatch(
      /a number cannot be looped over/,
    )
    expect(failure('{% for a, b in x %}{% endfor %}', { x: [[1]] }).message).toMatch(
      /lists of 2, and met a list of 1/,
    )
    expect(failure('{% for a, b in x.items() %}{% endfor %}', { x: 'text' }).message).toMatch(
      /x is text and has no \.items\(\)/,
    )
    expect(failure('{{ x < 1 }}', { x: 'a' }).message).toMatch(/cannot be compared/)
    expect(failure('{{ x|upper }}', { x: [] }).message).toMatch(/the filter "upper" on a list/)
  })

  it('refuses what is not well formed when it is compiled, with its line', () => {
    for (const source of [
      '{{ a',
      '\n{% if x %}',
      '{% endfor %}',
      '{{ }}',
      '{% for in x %}',
      '{{ x|nope }}',
      '{{ x.}}',
      '{{"a": 1}}',
      '{% nope %}',
      '{{ "a }}',
    ]) {
      const error = failure(source)
      expect(error.code, source).toBe('prompt_invalid')
      expect((error.details['line'] as number) > 0, source).toBeTruthy()
    }
  })

  it('refuses a name with a hyphen, which would be a subtraction', () => {
    for (const source of [
      '{{ object-entity }}',
      '{{ item.object-entity }}',
      '{% if a-b %}{% endif %}',
      '{% for x in my-list %}{% endfor %}',
      '{{ a-b|upper }}',
    ]) {
      const error = failure(source, { item: {}, a: 2, b: 1, object: 1, entity: 1, my: 1, list: 1 })
      expect(error.code, source).toBe('prompt_invalid')
      expect(error.message).toMatch(/subtraction/)
    }
    expect(
      render('{{ a - b }} {{ loop_-1 }} {{ item["object-entity"] }}', {
        a: 2,
        b: 1,
        loop_: 1,
        item: { 'object-entity': true },
      }),
    ).toBe('1 0 true')
  })
})

describe('what a template cannot reach', () => {
  it('refuses constructor, prototype and __proto__ however they are written', () => {
    const atOnce = [
      '{{ x.constructor }}',
      '{{ x["constructor"] }}',
      '{{ "".constructor.constructor("return 1")() }}',
      '{{ x.__proto__.y }}',
      '{{ constructor }}',
      '{% if x.prototype %}{% endif %}',
      '{% set __proto__ = 1 %}',
      '{{ {constructor: 1} }}',
      '{% for constructor in x %}{% endfor %}',
    ]
    for (const source of atOnce) expect(failure(source, { x: {} }).code, source).toBe('prompt_invalid')
    for (const source of [
      '{{ x["con" ~ "structor"] }}',
      '{% if x[name] %}{% endif %}',
      '{{ x[["constructor"]] }}',
    ])
      expect(failure(source, { x: {}, name: '__proto__' }).code, source).toBe('prompt_render_failed')
  })

  it('sees nothing that a term does not own', () => {
    for (const name of ['toString', 'hasOwnProperty', 'valueOf', 'push', 'at']) {
      expect(
        render(`{% if x.${name} or l.${name} or s.${name} or ${name} %}1{% else %}2{% endif %}`, {
          x: {},
          l: [],
          s: 'a',
        }),
      ).toBe('2')
      expect(failure(`{{ x.${name}() }}`, { x: {} }).code).toBe('prompt_invalid')
    }
  })

  it('has no files, macros, regular expressions or attribute filters', () => {
    const sources = [
      '{% include "a" %}',
      '{% extends "a" %}',
      '{% import "a" as b %}',
      '{% from "a" import b %}',
      '{% block a %}{% endblock %}',
      '{% macro a() %}{% endmacro %}',
      '{{ r/a/ }}',
      '{{ x|groupby("a") }}',
      '{{ x|random }}',
      '{{ cycler(1) }}',
    ]
    for (const source of sources) expect(failure(source, { x: [] }).code, source).toBe('prompt_invalid')
  })

  it('ends a template that would run without end', () => {
    const sources = [
      '{% for a in range(50000) %}{% for b in range(50000) %}x{% endfor %}{% endfor %}',
      '{% set x = "0123456789" %}{% for a in range(99) %}{% set x = x ~ x %}{% endfor %}',
      '{{ range(1000000000) }}',
      '{{ "a"|center(1000000000) }}',
      '{% for a in big %}{% for b in big %}{% endfor %}{% endfor %}',
    ]
    for (const source of sources)
      expect(failure(source, { big: Array.from({ length: 20_000 }, () => 0) }).code, source).toBe(
        'prompt_render_failed',
      )
  })

  describe('charges for the size of what is read and made', () => {
    const big = Array.from({ length: 20_000 }, (_, index) => `name ${index % 7}`)
    const long = 'ab '.repeat(100_000)
    const tree = Object.fromEntries(big.map((name, index) => [`${name} ${index}`, { name }]))
    const inLoop = (expression: string) =>
      `{% for i in range(5000) %}{{ (${expression}) is string }}{% endfor %}`
    it.each([
      inLoop('range(90000)|length'),
      inLoop('big + big'),
      inLoop('big|sort'),
      inLoop('tree|dictsort'),
      inLoop('long|sort'),
      inLoop('long|batch(9)'),
      inLoop('long|slice(9)'),
      inLoop('tree.items()'),
      inLoop('big|reverse'),
      inLoop('long|reverse'),
      inLoop('"x" in big'),
      inLoop('big == big + []'),
      inLoop('tree|dump'),
      inLoop('long|upper'),
      inLoop('long < long'),
      inLoop('long in long ~ "x"'),
      inLoop('long|replace("c", "d")'),
      inLoop('big is even'),
      `{% for i in range(5000) %}{% for c in long %}{% if c == 'z' %}x{% endif %}{% endfor %}{% endfor %}`,
      '{{ big|join(long) }}',
      '{{ long|replace("a", long) }}',
      '{{ long|replace("", long) }}',
      '{{ big|join("\n")|indent(9999) }}',
      // what a list holds twice is written twice
      '{% set x = [1] %}{% for i in range(60) %}{% set x = [x, x] %}{% endfor %}{{ x }}',
      '{% set x = [1] %}{% for i in range(60) %}{% set x = {a: x, b: x} %}{% endfor %}{{ x == [x] }}{{ x|dump(2) }}',
      '{% set x = [1] %}{% for i in range(60) %}{% set x = x + x %}{% endfor %}',
      '{% set x = [1] %}{% for i in range(60) %}{% set x = [x, x] %}{% endfor %}{{ [x, x]|sort }}',
      '{% set x = [1] %}{% for i in range(60) %}{% set x = [x, x] %}{% endfor %}{{ long[x] is defined }}{{ x is even }}',
    ])('%s', (source) => {
      expect(failure(source, { big, long, tree }).message).toMatch(/over \d+ (steps|characters)$/)
    })

    it('and not for reading a part of a large value', () => {
      const source = `{% for name, it in tree.items() %}{% if tree and loop.index <= loop.length and big|length > 1 %}{{
        it.name|default(big|first) }}{% endif %}{% endfor %}`
      expect(
        render(source, { big, tree: Object.fromEntries(Object.entries(tree).slice(0, 10_000)) }),
      ).toContain('name 1')
      expect(
        render('{{ long }}{{ tree|dump(1) }}{{ big|sort|join(", ") }}', { big, long, tree }).length,
      ).toBeGreaterThan(long.length)
    })
  })

  it('takes blanks from both ends of a text in linear time', () => {
    const blanks = ' \n\t\u00a0'.repeat(50_000)
    const start = performance.now()
    expect(render('[{{ text|trim }}]', { text: `${blanks}a${blanks}b${blanks}` })).toBe(`[a${blanks}b]`)
    expect(performance.now() - start).toBeLessThan(5000)
    expect(failure('{{ 5|trim }}').message).toMatch(/the filter "trim" on a number: it does not take that/)
  })

  it('checks a width as the filter will read it', () => {
    for (const [width, reason] of [
      ['10001', 'over 10000'],
      ["'1e9'", 'over 10000'],
      ['-10001', 'over 10000'],
      ['[99999999]', 'a list, not a number'],
      ['{a: 1}', 'an object, not a number'],
      ["'wide'", 'text, not a number'],
    ])
      for (const filter of ['center', 'indent', 'batch', 'slice', 'truncate', 'round'])
        expect(failure(`{{ 'a b'|${filter}(${width}) }}`).message, `${filter} ${width}`).toContain(reason)
    expect(render("{{ 'a'|center('3') }}|{{ none|default(20000) }}|{{ x|default(20000) }}")).toBe(
      ' a ||20000',
    )
  })

  it('gives an error, not a crash, for what is nested too deeply', () => {
    expect(failure(`{{ ${'('.repeat(50_000)}`).code).toBe('prompt_invalid')
    let deep: unknown = 0
    for (let depth = 0; depth < 50_000; depth++) deep = [deep]
    expect(failure('{{ deep }}', { deep }).code).toBe('prompt_render_failed')
  })

  it('does not change the terms', () => {
    const terms = { list: [3, 1, 2], o: { a: 1 } }
    render('{% set o = 2 %}{{ list|sort }}{{ list|reverse }}{% for o in list %}{{ o }}{% endfor %}', terms)
    expect(terms).toEqual({ list: [3, 1, 2], o: { a: 1 } })
    expect(() => render('{{ o.b }}', terms)).toThrow()
  })
})
