import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { GraphmillError } from '../../../src/errors.ts'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'
import { checkCatalogue } from '../../../src/prompt/catalogue/check-catalogue.ts'
import { formatProblem } from '../../../src/prompt/catalogue/problem.ts'
import { decodeTerms } from '../../../src/prompt/catalogue/terms.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'prompts-'))
})
afterEach(() => rm(folder, { recursive: true }))

/** Writes a file below the folder; its path. An object is written as JSON. */
async function write(name: string, content: string | object): Promise<string> {
  const path = join(folder, name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

async function failure(...paths: string[]): Promise<GraphmillError> {
  const error = await loadCatalogue(paths).then(
    () => new Error('it loaded'),
    (reason: unknown) => reason,
  )
  if (error instanceof GraphmillError) return error
  throw error
}

/** The problems that `check` finds, a line each, without the folder. */
async function problems(...paths: string[]): Promise<string[]> {
  const found = await checkCatalogue(paths)
  return found.problems.map((problem) => formatProblem(problem).replaceAll(`${folder}/`, ''))
}

describe('a prompt file', () => {
  it('gives a prompt by the name of the file, with every key', async () => {
    const path = await write(
      'greet.yaml',
      [
        'description: A greeting',
        'prompt: "Hello {{ name }}, {{ mood }}"',
        'response-type: json',
        'schema: { type: object, required: [reply] }',
        'terms: { mood: happy }',
        'output-mode: text-based',
        'temperature: 0.2',
        'max-tokens: 100',
        'max-continuations: 0',
        'aliases: [hello]',
      ].join('\n'),
    )
    const catalogue = await loadCatalogue([path])
    const prompt = catalogue.get('greet')
    expect(prompt).toMatchObject({
      id: 'greet',
      responseType: 'json',
      jsonSchema: { type: 'object', required: ['reply'] },
      description: 'A greeting',
      outputMode: 'text-based',
      sampling: { temperature: 0.2, maxTokens: 100 },
      maxContinuations: 0,
      file: path,
    })
    expect(prompt.render({ name: 'Ada' }).user).toBe('Hello Ada, happy')
    expect(prompt.schema?.check({ reply: 1 })).toBeUndefined()
    expect(prompt.schema?.check({})).toMatch(/reply/)
    expect(catalogue.get('hello')).toBe(prompt)
    expect(catalogue.ids()).toContain('greet')
    expect(catalogue.ids()).not.toContain('hello')
  })

  it('needs only the template: the response type is text, and nothing is sent that is not set', async () => {
    const prompt = (await loadCatalogue([await write('plain.yml', 'prompt: hi')])).get('plain')
    expect(prompt).toMatchObject({ responseType: 'text', sampling: {}, examples: [] })
    expect(prompt).not.toHaveProperty('schema')
  })

  it('takes object-schema for schema', async () => {
    const content = {
      prompt: 'x',
      'response-type': 'jsonl',
      'object-schema': { type: 'object', required: ['a'] },
    }
    const prompt = (await loadCatalogue([await write('one.json', content)])).get('one')
    expect(prompt.schema?.check({})).toMatch(/a/)
  })

  it('names an unknown key, its line, and the key that was meant', async () => {
    const path = await write('a.yaml', 'prompt: x\nrespones-type: json\n')
    const error = await failure(path)
    expect(error.code).toBe('prompt_invalid')
    expect(error.message).toBe(`${path}:2: respones-type: unknown key; did you mean "response-type"?`)
  })

  it('names every key that has the wrong kind of value', async () => {
    const lines = [
      'prompt: 3',
      'response-type: xml',
      'schema: []',
      'terms: [a]',
      'examples: {}',
      'output-mode: fast',
      'temperature: hot',
      'max-tokens: 0',
      'max-continuations: -1',
      'aliases: [1]',
    ]
    const found = await problems(await write('a.yaml', lines.join('\n')))
    expect(found).toHaveLength(lines.length)
    for (const [index, line] of lines.entries())
      expect(found[index]).toContain(`a.yaml:${index + 1}: ${line.split(':')[0]}: must be `)
    const [r] = await problems(await write('b.yaml', 'output-mode: ellmer\nprompt: x'))
    expect(r).toMatch(/must be one of .*ellmer .*does not exist outside of R/)
  })

  it('may have a schema of another draft, by whose rules items are checked', async () => {
    const schema = { $schema: 'http://json-schema.org/draft-04/schema#', minimum: 1, exclusiveMinimum: true }
    const path = await write('a.yaml', { prompt: 'x', 'response-type': 'jsonl', schema })
    const { schema: compiled } = (await loadCatalogue([path])).get('a')
    expect([1, 2].map((value) => compiled!.test(value))).toEqual([false, true])
  })

  it('names the line of the file on which a template fails, in a block and in a quoted text', async () => {
    const block = await write('a.yaml', 'response-type: text\nprompt: |-\n  one\n  two {{ x.constructor }}\n')
    const quoted = await write('b.yaml', '\nprompt: "one {{ x"\n')
    expect(await problems(block, quoted)).toEqual([
      'a.yaml:4: prompt: "constructor" is not for templates',
      'b.yaml:2: prompt: expected variable end',
    ])
  })

  it('refuses an invalid schema', async () => {
    for (const schema of [
      { type: 'objekt' },
      { required: 'a' },
      { $ref: '#/nowhere' },
      { properties: { a: 1 } },
    ]) {
      const error = await failure(await write('a.json', { prompt: 'x', 'response-type': 'json', schema }))
      expect(error.code, JSON.stringify(schema)).toBe('schema_invalid')
      expect(error.message).toContain('a.json: schema: ')
    }
  })

  it('refuses a file that is not a prompt: no template, a list, broken YAML, broken JSON, nothing', async () => {
    const files = {
      'a.yaml': 'description: x',
      'b.yaml': '- x',
      'c.yaml': 'prompt: "x\n',
      'd.json': '{"prompt": ',
      'e.yaml': '',
    }
    for (const [name, content] of Object.entries(files)) {
      const error = await failure(await write(name, content))
      expect(error.code, name).toBe('prompt_invalid')
      expect(error.message).toContain(name)
    }
  })

  it('refuses names of terms that no template can write', async () => {
    const path = await write('a.yaml', 'prompt: x\nterms:\n  ok: 1\n  a-b: 1\n  __proto__: 1\n')
    expect(await problems(path)).toEqual([
      'a.yaml:4: terms.a-b: a template cannot name this term: use letters, digits and _',
      'a.yaml:5: terms.__proto__: a template cannot name this term: use letters, digits and _',
    ])
  })

  it('is found to be missing, or a folder without prompts, with its name', async () => {
    const missing = await failure(join(folder, 'nowhere.yaml'))
    expect(missing.code).toBe('configuration_invalid')
    expect(missing.message).toContain('nowhere.yaml: cannot be read')
    await mkdir(join(folder, 'empty'))
    expect((await failure(join(folder, 'empty'))).code).toBe('configuration_invalid')
  })
})

describe('layers of prompts', () => {
  it('puts a later file over an earlier one and over the built-in prompts, id by id', async () => {
    await write('one/extract-definitions.yaml', 'prompt: one {{ text }}')
    await write('one/README.md', 'not a prompt')
    await write('two/extract-definitions.yaml', 'prompt: two {{ text }}')
    const one = await loadCatalogue([join(folder, 'one')])
    const both = await loadCatalogue([join(folder, 'one'), join(folder, 'two')])
    expect(one.get('extract-definitions').render({ text: 'x' }).user).toBe('one x')
    expect(both.get('extract-definitions').render({ text: 'x' }).user).toBe('two x')
    expect(both.ids()).toEqual((await loadCatalogue()).ids())
  })

  it('prefers a request’s terms to the prompt’s, and these to the global ones, in both messages', async () => {
    await write('system.yaml', 'prompt: "{{ a }}{{ b }}{{ c }}"\nterms: { a: g, b: g, c: g }')
    await write('demo.yaml', 'prompt: "{{ c }}{{ b }}{{ a }}"\nterms: { b: p, c: p }')
    const catalogue = await loadCatalogue([folder])
    expect(catalogue.get('demo').render({ c: 'r' })).toEqual({ system: 'gpr', user: 'rpg' })
    expect(catalogue.get('demo').render({ a: null, b: 'r' })).toEqual({ system: 'rp', user: 'pr' })
  })

  it('keeps the system template when a later system.yaml holds only terms', async () => {
    const path = await write('system.yaml', 'terms: { sentences: 9 }')
    const [own, builtIn] = [await loadCatalogue([path]), await loadCatalogue()]
    const render = (catalogue: typeof own) => catalogue.get('summarise').render({ text: 'x' })
    expect(render(own).system).toBe(render(builtIn).system)
    expect(render(own).user).toContain('at most 3 sentences')
  })

  it('lets a prompt that has the id of an alias take the place of the aliased one', async () => {
    const path = await write('ontology-extract.yaml', 'prompt: mine')
    const catalogue = await loadCatalogue([path])
    for (const id of ['ontology-extract', 'extract-with-ontologies'])
      expect(catalogue.get(id).render({}).user).toBe('mine')
    const other = await write('extract-with-ontologies.yaml', 'prompt: other')
    const two = await loadCatalogue([folder])
    expect(
      [two.get('ontology-extract'), two.get('extract-with-ontologies')].map((p) => p.render({}).user),
    ).toEqual(['mine', 'other'])
    expect((await loadCatalogue([other])).get('ontology-extract').render({}).user).toBe('other')
  })

  it('refuses an alias that is the id of a prompt, and two files of one id in a folder', async () => {
    await write('a.yaml', 'prompt: x\naliases: [describe]')
    await write('b.yaml', 'prompt: x')
    await write('b.yml', 'prompt: y')
    expect(await problems(folder)).toEqual([
      'b.yml:1: there is another prompt "b" beside it',
      'a.yaml:2: aliases: "describe" is the id of a prompt',
    ])
  })

  it('gives all problems at once, and no catalogue', async () => {
    await write('a.yaml', 'prompt: "{{ x"')
    await write('b.yaml', 'prompt: "{{ a-b }}"')
    await write('good.yaml', 'prompt: x')
    const error = await failure(folder)
    expect(error.message).toMatch(/a\.yaml:1: .* \(and 1 more\)$/)
    expect(error.details['problems']).toHaveLength(2)
  })
})

describe('TrustGraph’s configuration', () => {
  const template = {
    prompt: 'Q: {{ q }}',
    'response-type': 'json',
    schema: { type: 'object', required: ['a'] },
  }

  it.each([
    [
      'values as JSON text',
      {
        system: '"Be brief."',
        'template-index': '["question"]',
        'template.question': JSON.stringify(template),
      },
    ],
    [
      'values as they are',
      { system: 'Be brief.', 'template-index': ['question'], 'template.question': template },
    ],
    [
      'under the type prompt',
      {
        prompt: { system: 'Be brief.', 'template-index': ['question'], 'template.question': template },
        other: {},
      },
    ],
  ])('loads with %s', async (_name, content) => {
    for (const path of [await write('tg.json', content), await write('tg.yaml', content)]) {
      const prompt = (await loadCatalogue([path])).get('question')
      expect(prompt.render({ q: 'why?' })).toEqual({ system: 'Be brief.', user: 'Q: why?' })
      expect(prompt).toMatchObject({ id: 'question', responseType: 'json' })
      expect(prompt.schema?.check({})).toMatch(/a/)
    }
  })

  it('loads the ids of the index only, and no keys that TrustGraph does not read', async () => {
    const path = await write('tg.json', {
      'template-index': ['a'],
      'template.a': { id: 'a', prompt: 'x', schema: null, 'owner-team': 'us' },
      'template.b': '{{{ not even JSON',
    })
    const ids = (await loadCatalogue([path])).ids()
    expect(ids).toContain('a')
    expect(ids).not.toContain('b')
  })

  it('takes the place of all built-in prompts when it is given as such, and of their system template', async () => {
    const bytes = Buffer.from(JSON.stringify({ 'template.a': JSON.stringify({ prompt: 'A: {{ x }}' }) }))
    const catalogue = await loadCatalogue([], { path: 'trustgraph.json', bytes })
    expect(catalogue.ids()).toEqual(['a'])
    expect(catalogue.get('a').render({ x: 1 })).toEqual({ system: '', user: 'A: 1' })
    const own = await write('a.yaml', 'prompt: "mine: {{ x }}"')
    const over = await loadCatalogue([own], { path: 'trustgraph.json', bytes })
    expect(over.get('a').render({ x: 1 }).user).toBe('mine: 1')
  })

  it('names what is missing or broken, and loads nothing then', async () => {
    const path = await write('tg.json', {
      system: { not: 'text' },
      'template-index': '["good", "extract-topic", "broken", "typo", "bad-template"]',
      'template.good': { prompt: 'x' },
      'template.extract-topics': { prompt: 'x' },
      'template.broken': "{'prompt': 'single quotes'}",
      'template.typo': { promt: 'x' },
      'template.bad-template': { prompt: 'a\n{{ x' },
    })
    const found = await problems(path)
    expect(found).toHaveLength(5)
    expect(found[0]).toBe(
      'tg.json: template-index: "template.extract-topic" is missing; did you mean "extract-topics"?',
    )
    expect(found[1]).toMatch(/^tg\.json: template\.broken: not JSON: /)
    expect(found[2]).toBe('tg.json: template.typo.promt: unknown key; did you mean "prompt"?')
    expect(found[3]).toBe('tg.json: system: must be text, not an object')
    expect(found[4]).toBe(
      'tg.json: template.bad-template.prompt: prompt "bad-template", line 2: the tag that begins with "{{" has no end',
    )
    expect((await failure(path)).code).toBe('prompt_invalid')
  })

  it('loads every template when there is no index', async () => {
    const path = await write('tg.json', {
      system: '"Be brief."',
      'template.a': '{"prompt":"A {{ x }}"}',
      'template.b.c': { prompt: 'B', 'object-schema': { type: 'object' }, 'response-type': 'jsonl' },
    })
    const catalogue = await loadCatalogue([path])
    expect(catalogue.get('a').render({ x: 1 })).toEqual({ system: 'Be brief.', user: 'A 1' })
    expect(catalogue.get('b.c')).toMatchObject({ responseType: 'jsonl', jsonSchema: { type: 'object' } })
  })

  it('renders as TrustGraph does, and other files keep their rendering', async () => {
    const prompt = '{{ d }} {{ missing }}{% for x in d.l %}{{ loop.index }}{% endfor %}'
    const path = await write('tg.json', { system: '"{{ n }}|{{ big }}"', 'template.a': { prompt } })
    const terms = decodeTerms({
      d: '{"l":[1.0,true,null],"1":"it\'s"}',
      n: '1e3',
      big: '12345678901234567890',
    })
    expect((await loadCatalogue([path])).get('a').render(terms)).toEqual({
      system: '1000.0|12345678901234567890',
      user: `{'l': [1.0, True, None], '1': "it's"} 012`,
    })
    const own = await write('own.yaml', 'prompt: "{{ d }}{% for x in d.l %}{{ loop.index }}{% endfor %}"')
    expect((await loadCatalogue([own])).get('own').render(terms).user).toBe(
      '{"1":"it\'s","l":[1,true,null]}123',
    )
    const marked = await write('marked.yaml', 'dialect: trustgraph\nprompt: "{{ d.l }}{{ missing }}"')
    expect((await loadCatalogue([marked])).get('marked').render(terms).user).toBe('[1.0, True, None]')
  })

  it('refuses a broken index', async () => {
    const broken = await write('a.json', { 'template-index': '[broken', 'template.a': { prompt: 'x' } })
    expect(await problems(broken)).toEqual([
      'a.json: template-index: must be a list of ids, or one as JSON text',
    ])
  })
})

describe('a request', () => {
  it('for an unknown prompt names the one that was meant', async () => {
    const catalogue = await loadCatalogue()
    for (const id of ['extract-definiton', 'toString', '__proto__', ''])
      expect(() => catalogue.get(id)).toThrow(GraphmillError)
    expect(() => catalogue.get('extract-definiton')).toThrow(
      'there is no prompt "extract-definiton"; did you mean "extract-definitions"?',
    )
    expect(() => catalogue.get('nothing-like-it')).toThrow(/^there is no prompt "nothing-like-it"$/)
  })

  it('has its terms decoded from JSON text', () => {
    const terms = decodeTerms({ text: '"a\\nb"', n: '3', o: '{"a":[null]}' })
    expect(terms).toEqual({ text: 'a\nb', n: 3, o: { a: [null] } })
    const hostile = decodeTerms(JSON.parse('{"__proto__": "{\\"x\\": 1}"}'))
    expect(Object.hasOwn(hostile, '__proto__')).toBe(true)
    expect((hostile as { x?: unknown }).x).toBeUndefined()
  })

  it('with a term that is not JSON learns which, and the quoted form', () => {
    const broken = () => decodeTerms({ fine: '1', text: 'say "hello"' })
    expect(broken).toThrow(
      'the term "text" is not JSON: text=say "hello"; a plain string needs quotes: text="say \\"hello\\""',
    )
    expect(broken).toThrow(expect.objectContaining({ code: 'terms_invalid', details: { term: 'text' } }))
    expect(() => decodeTerms({ text: '' })).toThrow('text=""')
    const long = () => decodeTerms({ text: '😀'.repeat(1000) })
    expect(long).toThrow(expect.objectContaining({ code: 'terms_invalid' }))
    expect(long).not.toThrow(/\uFFFD|.{400}/)
  })
})

describe('check', () => {
  it('finds worked examples that do not render, do not parse, or do not fit', async () => {
    const path = await write(
      'a.yaml',
      [
        'prompt: "{{ text }}"',
        'response-type: jsonl',
        'schema: { type: object, required: [a] }',
        'examples:',
        '  - reply: ""',
        '  - { terms: { text: x }, reply: "{", items: [] }',
        '  - { terms: { text: x }, reply: "{\\"a\\": 1}", items: [{ a: 2 }] }',
        '  - { terms: { text: x }, items: [{ b: 2 }] }',
        '  - { terms: { text: x }, reply: "{\\"a\\": 1}", items: [{ a: 1 }] }',
      ].join('\n'),
    )
    const found = await problems(path)
    expect(found).toHaveLength(4)
    expect(found[0]).toBe('a.yaml:5: examples[0]: prompt "a", line 1: the term "text" is not given')
    expect(found[1]).toBe('a.yaml:6: examples[1]: line 1 of the reply is not JSON')
    expect(found[2]).toBe('a.yaml:7: examples[2]: the reply does not hold the items')
    expect(found[3]).toMatch(/^a\.yaml:8: examples\[3\]: item 1 fails the schema: /)
    await expect(loadCatalogue([path])).resolves.toBeDefined()
  })

  it('compares the value of a json example', async () => {
    const example = (reply: string, value: unknown) => ({ terms: {}, reply, value })
    const path = await write('a.json', {
      prompt: 'x',
      'response-type': 'json',
      schema: { type: 'array' },
      examples: [example('[1]', [1]), example('[1]', [2]), example('{}', {}), example('no', [])],
    })
    expect(await problems(path)).toEqual([
      'a.json: examples[1]: the reply does not hold the value',
      expect.stringMatching(/^a\.json: examples\[2\]: the value fails the schema: /),
      'a.json: examples[3]: the reply is not JSON',
    ])
  })
})

describe('checking a prompt that replaces a built-in one', () => {
  it('finds a term that its extractor does not give, in the words of the template', async () => {
    const path = await write(
      'extract-definitions.yaml',
      'response-type: jsonl\nprompt: "Define: {{ txt }}"\n',
    )
    expect(await problems(path)).toEqual([
      expect.stringMatching(
        /^extract-definitions\.yaml:1: .*the term "txt" is not given.*that its extractor gives/,
      ),
    ])
  })

  it('finds a response-type that brings no items, which is that of a prompt without one', async () => {
    const path = await write('trustgraph.json', {
      prompt: {
        'template-index': '["extract-definitions"]',
        'template.extract-definitions': '{"prompt":"Define: {{ text }}"}',
      },
    })
    expect(await problems(path)).toEqual([
      expect.stringMatching(/^trustgraph\.json.*its extractor needs items: the response-type must be jsonl/),
    ])
  })

  it('finds nothing when it can replace it', async () => {
    const path = await write(
      'extract-definitions.yaml',
      'response-type: json\nprompt: "Define: {{ text }}"\n',
    )
    expect(await problems(path)).toEqual([])
  })
})
