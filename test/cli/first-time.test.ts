// What first-time users try, and get wrong.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { graphmill } from '../support/command.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'

let server: LlmServer
let folder: string
beforeAll(async () => {
  server = await startLlmServer()
})
afterAll(() => server.close())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
  server.set({ rules: undefined, refuse: undefined, apiKey: undefined, models: undefined })
})

const file = (name: string, content: string) => {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}
const configured = () => ({
  OPENAI_BASE_URL: server.url,
  OPENAI_API_KEY: 'sk-of-the-test',
  GRAPHMILL_MODEL: 'test-model',
})
const rowsOf = (stdout: string) =>
  stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)

describe('a typo gets a suggestion, and exit code 2', () => {
  test.each([
    ['a command', ['extrat', 'x.txt'], /Unknown command 'extrat'\. Did you mean extract\? \[usage\]/],
    [
      'a flag',
      ['extract', '--chunk-sise', '9', 'x.txt'],
      /Unknown option '--chunk-sise'\. Did you mean --chunk-size\? \[usage\]/,
    ],
    ['a processor', ['run', 'chunk-txt'], /no processor chunk-txt\. Did you mean chunk-text\? \[usage\]/],
    [
      'an extractor',
      ['extract', '--extractors', 'definitons', 'x.txt'],
      /no extractor definitons\. Did you mean definitions\? There are: definitions, /,
    ],
    ['a topic', ['tail', 'chnk', '--broker', 'kafka://127.0.0.1:1'], /chnk.*Did you mean chunk\?/],
    [
      'a whole topic',
      ['tail', 'gm.flow.chnk.default.default', '--broker', 'kafka://127.0.0.1:1'],
      /Did you mean gm\.flow\.chunk\.default\.default\?/,
    ],
    [
      'a choice',
      ['extract', '--format', 'turtel', 'x.txt'],
      /--format must be one of .*Did you mean turtle\?/,
    ],
    [
      'a choice of one command',
      ['tail', 'chunk', '--from', 'erliest'],
      /'erliest' is invalid\. Allowed choices are earliest, latest\. Did you mean earliest\? \[usage\]/,
    ],
    [
      'a response type',
      ['parse', '--response-type', 'jsnl'],
      /Allowed choices are text, json, jsonl\. Did you mean jsonl\? \[usage\]/,
    ],
    ['a command of a group', ['topics', 'lagg'], /Unknown command 'lagg'\. Did you mean lag\? \[usage\]/],
  ])('%s', async (_, args, expected) => {
    const { code, stderr } = await graphmill(args, { cwd: folder })
    expect(stderr).toMatch(expected)
    expect(code).toBe(2)
  })
})

describe('an error', () => {
  test.each([
    [['extract'], /^graphmill: Missing required argument 'files'\. \[usage\]\nSee `graphmill --help`/],
    [['config', 'all'], /^graphmill: Too many arguments for 'config'\. .* \[usage\]\nSee `graphmill --help`/],
    [['extract', '--model'], /^graphmill: Option '--model <NAME>' argument missing\. \[usage\]\nSee /],
  ])('of the command line has a code and a next step: %j', async (args, expected) => {
    const { code, stderr } = await graphmill(args, { cwd: folder })
    expect(stderr).toMatch(expected)
    expect(code).toBe(2)
  })

  test('about an environment variable with an invalid choice has a suggestion', async () => {
    const { code, stderr } = await graphmill(['tail', 'chunk'], { env: { GRAPHMILL_FROM: 'erliest' } })
    expect(stderr).toMatch(/GRAPHMILL_FROM: .* Did you mean earliest\? \[usage\]/)
    expect(code).toBe(2)
  })

  test('says what happened, its cause, its code and what to do', async () => {
    const [port] = await freePorts(1)
    const { code, stderr } = await graphmill(['tail', 'chunk', '--broker', `kafka://127.0.0.1:${port}`])
    expect(stderr).toMatch(/^graphmill: .*ECONNREFUSED.*\[broker_unavailable\]\nCheck that the broker is up/)
    expect(code).toBe(1)
  })

  test('has colours only if they are enabled', async () => {
    const { stderr } = await graphmill(['run'])
    expect(stderr).not.toContain('\u001b')
    const forced = await graphmill(['run'], { env: { FORCE_COLOR: '1' } })
    expect(forced.stderr).toMatch(/^\u001b\[31mgraphmill: .*\[usage\]\u001b\[39m\n/)
    const refused = await graphmill(['run'], { env: { NO_COLOR: '1' } })
    expect(refused.stderr).not.toContain('\u001b')
  })
})

describe('doctor', () => {
  const doctor = async (env: Readonly<Record<string, string>>, ...args: string[]) => {
    const { code, stdout, stderr } = await graphmill(['doctor', '--json', ...args], { env, cwd: folder })
    return { code, stderr, found: new Map(rowsOf(stdout).map((row) => [row['check'], row])) }
  }

  test('reports no failure when nothing is configured, and says what is missing', async () => {
    const { code, found } = await doctor({})
    expect(code).toBe(0)
    expect(found.get('model')).toMatchObject({
      state: 'skipped',
      detail: expect.stringMatching(/OPENAI_API_KEY/),
    })
    expect(found.get('broker')).toMatchObject({ state: 'skipped' })
  })

  test('checks the key and the model with a call each', async () => {
    server.set({ apiKey: 'sk-of-the-test' })
    const before = server.requests.length
    const { code, found } = await doctor(configured())
    expect(found.get('key')).toMatchObject({ state: 'ok' })
    expect(found.get('model')).toMatchObject({ state: 'ok', detail: expect.stringContaining('test-model') })
    expect(code).toBe(0)
    const paths = server.requests.slice(before).map(({ method, path }) => `${method} ${path}`)
    expect(paths.map((path) => path.replace('/v1', ''))).toEqual(['GET /models', 'POST /chat/completions'])
  })

  test('a key that is refused', async () => {
    server.set({ apiKey: 'another' })
    const { code, found, stderr } = await doctor(configured())
    expect(found.get('key')).toMatchObject({
      state: 'failed',
      detail: expect.stringContaining('[llm_authentication]'),
      fix: expect.stringMatching(/^Set the key of the server .*\bOPENAI_API_KEY\b/),
    })
    expect(found.get('model')).toMatchObject({ state: 'skipped' })
    expect(code).toBe(1)
    expect(JSON.stringify([...found.values()]) + stderr).not.toContain('sk-of-the-test')
  })

  test('a model that does not exist', async () => {
    server.set({ models: ['one', 'two'] })
    const { code, found } = await doctor(configured())
    expect(found.get('key')).toMatchObject({ state: 'ok' })
    expect(found.get('model')).toMatchObject({
      state: 'failed',
      detail: expect.stringMatching(/one, two.*\[llm_model_unknown\]/),
    })
    expect(code).toBe(1)
  })

  test('used-up credit, which only a model call shows', async () => {
    server.set({ rules: [{ reply: { refuse: 'quota' } }] })
    const { code, found } = await doctor(configured())
    expect(found.get('key')).toMatchObject({ state: 'ok' })
    expect(found.get('model')).toMatchObject({
      state: 'failed',
      detail: expect.stringContaining('[llm_quota_exhausted]'),
    })
    expect(code).toBe(1)
  })

  test('unavailable servers and an invalid prompt, all at once', async () => {
    const [llm, broker, registry] = await freePorts(3)
    const bad = file('bad.yaml', 'prompt: "{% if %}"\n')
    const { code, found } = await doctor(
      { OPENAI_BASE_URL: `http://127.0.0.1:${llm}/v1`, GRAPHMILL_MODEL: 'm' },
      ...['--broker', `kafka://127.0.0.1:${broker}`, '--schema-registry', `http://127.0.0.1:${registry}`],
      ...['--prompts', bad],
    )
    const states = [...found].map(([check, { state }]) => `${check} ${state}`)
    expect(states).toEqual([
      'files failed',
      'key skipped',
      'model failed',
      'broker failed',
      'schema registry failed',
    ])
    expect(found.get('model')!['detail']).toMatch(/\[llm_unavailable\]/)
    expect(found.get('broker')).toMatchObject({
      fix: 'Check that the broker is up and that --broker names it.',
    })
    expect(code).toBe(1)
  })

  test('for people, one line per check and the fix below it', async () => {
    server.set({ apiKey: 'another' })
    const { stdout } = await graphmill(['doctor'], { env: configured(), cwd: folder })
    expect(stdout).toMatch(/^ok +files/m)
    expect(stdout).toMatch(/^failed +key .*\[llm_authentication\]\n +Set the key .*OPENAI_API_KEY/m)
  })
})

describe('config', () => {
  test('prints every value and where it came from, and no secret', async () => {
    const settings = file('graphmill.yaml', 'chunk-size: 900\nextractors: [topics]\nspace: mine\n')
    const env = {
      GRAPHMILL_SPACE: 'theirs',
      GRAPHMILL_SASL_PASSWORD: 'very-secret',
      GRAPHMILL_STORE: 'https://me:very-secret@store/sparql',
      OPENAI_API_KEY: 'very-secret',
    }
    const { code, stdout } = await graphmill(
      ['config', '--json', '--model', 'm', '--pulsar-token', 'very-secret'],
      {
        env,
        cwd: folder,
      },
    )
    const found = new Map(rowsOf(stdout).map(({ option, value, from }) => [option, [value, from]]))
    expect(found.get('chunk-size')).toEqual([900, 'graphmill.yaml'])
    expect(found.get('extractors')).toEqual([['topics'], 'graphmill.yaml'])
    expect(found.get('space')).toEqual(['theirs', 'GRAPHMILL_SPACE'])
    expect(found.get('model')).toEqual(['m', '--model'])
    expect(found.get('broker')).toEqual([null, 'default'])
    expect(found.get('format')).toEqual(['nquads', 'default'])
    expect(found.get('provenance')).toEqual([{ extract: 'none', run: 'subgraph' }, 'default'])
    expect(found.get('log-level')).toEqual([{ eval: 'silent', extract: 'silent', run: 'info' }, 'default'])
    expect(found.get('cache-dir')).toEqual([expect.stringMatching(/graphmill$/), 'default'])
    expect(found.get('sasl-password')).toEqual(['***', 'GRAPHMILL_SASL_PASSWORD'])
    expect(found.get('pulsar-token')).toEqual(['***', '--pulsar-token'])
    expect(found.get('store')).toEqual(['https://***@store/sparql', 'GRAPHMILL_STORE'])
    expect(found.get('OPENAI_API_KEY')).toEqual(['***', 'environment'])
    expect(stdout).not.toContain('very-secret')
    expect(code).toBe(0)
    const table = await graphmill(['config', '--config', settings])
    expect(table.stdout).toMatch(new RegExp(`^chunk-size +900 +${settings}$`, 'm'))
    expect(table.stdout).toMatch(/^log-level +silent for extract, silent for eval, info for run +default$/m)
    const help = await graphmill(['run', '--help'])
    expect(help.stdout).toMatch(/--log-level <LEVEL>[^[]*\[info\]/)
  })

  test('lists environment variables that are not options', async () => {
    const { stderr } = await graphmill(['config'], {
      env: { GRAPHMILL_BROKR: 'x', GRAPHMILL_UNTIL_END: '1' },
      cwd: folder,
    })
    expect(stderr).toBe('note: GRAPHMILL_BROKR is no option. Did you mean GRAPHMILL_BROKER?\n')
  })

  test('a file with an unknown key is refused by every command that reads one', async () => {
    file('graphmill.yaml', 'chunk-sise: 900\n')
    const { code, stderr } = await graphmill(['config'], { cwd: folder })
    expect(stderr).toMatch(
      /graphmill\.yaml: there is no option chunk-sise\. Did you mean chunk-size\? \[configuration_invalid\]/,
    )
    expect(code).toBe(2)
  })
})

test('a named file that does not exist is wrong usage for every option', async () => {
  const document = file('mill.txt', 'The mill stands by the river.')
  const nowhere = join(folder, 'nowhere.json')
  const commands = [
    ['extract', document, '--config', nowhere],
    ['extract', document, '--prompts', nowhere],
    ['extract', document, '--schemas', nowhere],
    ['extract', document, '--ontologies', nowhere],
    ['parse', '--schema', nowhere],
    ['prompt', 'x', '--term', `text=@${nowhere}`, '--broker', 'kafka://127.0.0.1:1'],
    ['prompts', 'import', nowhere],
    ['topics', 'lag', '--broker', 'kafka://127.0.0.1:1', '--tls-ca', nowhere],
  ]
  for (const { code, stderr } of await Promise.all(
    commands.map((args) => graphmill(args, { cwd: folder })),
  )) {
    expect(stderr).toMatch(/no such file.*nowhere\.json.*\[configuration_invalid\]\n/)
    expect(code).toBe(2)
  }
}, 60_000)

describe('prompts import', () => {
  const configuration = JSON.stringify({
    system: '"You are a mill."',
    'template-index': '["greet","grind"]',
    'template.greet': JSON.stringify({ prompt: 'Say hello to {{name}}.\nBe kind.', 'response-type': 'text' }),
    'template.grind': {
      prompt: 'Grind {{ text }}',
      'response-type': 'jsonl',
      schema: { type: 'object', properties: { grain: { type: 'string' } }, required: ['grain'] },
    },
  })

  test("writes one file for each prompt of TrustGraph's configuration, and check accepts them", async () => {
    const from = file('trustgraph.json', configuration)
    const out = join(folder, 'mine')
    const { code, stdout } = await graphmill(['prompts', 'import', from, '--out', out, '--json'])
    expect(rowsOf(stdout).map(({ prompt }) => prompt)).toEqual(['system', 'greet', 'grind'])
    expect(code).toBe(0)
    expect(readdirSync(out).sort()).toEqual(['greet.yaml', 'grind.yaml', 'system.yaml'])
    const read = (name: string) => parse(readFileSync(join(out, name), 'utf8')) as unknown
    expect(read('system.yaml')).toEqual({ dialect: 'trustgraph', prompt: 'You are a mill.' })
    expect(read('greet.yaml')).toEqual({
      dialect: 'trustgraph',
      prompt: 'Say hello to {{name}}.\nBe kind.',
      'response-type': 'text',
    })
    expect(read('grind.yaml')).toMatchObject({ 'response-type': 'jsonl', schema: { required: ['grain'] } })
    const check = await graphmill(['check', '--prompts', out])
    expect(check.stdout).toMatch(/greet.*grind[\s\S]*no problems/)
  })

  test('overwrites nothing without --force, and then writes no file', async () => {
    const from = file('trustgraph.json', configuration)
    const there = file('grind.yaml', 'prompt: mine\n')
    const { code, stderr } = await graphmill(['prompts', 'import', from, '--out', folder])
    expect(stderr).toMatch(/Nothing was written: .*grind\.yaml exists already.*\[usage\]/)
    expect(code).toBe(2)
    expect(readdirSync(folder).sort()).toEqual(['grind.yaml', 'trustgraph.json'])
    expect((await graphmill(['prompts', 'import', from, '--out', folder, '--force'])).code).toBe(0)
    expect(readFileSync(there, 'utf8')).toContain('Grind')
  })

  test.each([
    ['a file that is no such configuration', '{"a": 1}', /not TrustGraph's configuration/],
    ['a prompt that is missing', '{"template-index": ["a"]}', /"template\.a" is missing/],
    [
      'a template that check would refuse',
      JSON.stringify({
        'template-index': ['good', 'bad'],
        'template.good': { prompt: 'Say {{ text }}' },
        'template.bad': { prompt: 'Say {{ text.__class__ }}' },
      }),
      /template\.bad.*__class__/,
    ],
    [
      'an id that would leave the folder',
      '{"template-index": ["../a"], "template.../a": {"prompt": "x"}}',
      /cannot be a file name/,
    ],
  ])('%s is an error, and nothing is written', async (_, content, expected) => {
    const out = join(folder, 'mine')
    const { code, stderr } = await graphmill(['prompts', 'import', file('x.json', content), '--out', out])
    expect(stderr).toMatch(expected)
    expect(stderr).toMatch(/\[prompt_invalid\]/)
    expect(code).toBe(1)
    expect(readdirSync(folder)).toEqual(['x.json'])
  })
})

describe('extract --limit', () => {
  const text = Array.from(
    { length: 10 },
    (_, n) => `The mill number ${n} stands by the river of the valley.`,
  ).join('\n\n')
  const extract = (...args: string[]) =>
    graphmill(['extract', ...args, '--extractors', 'topics', '--chunk-size', '60', '--chunk-overlap', '0'], {
      env: configured(),
      cwd: folder,
    })

  test('extracts the first chunks of the documents, and says that it was limited', async () => {
    const [a, b, c] = ['a.txt', 'b.txt', 'c.txt'].map((name) => file(name, text))
    const before = server.counts.calls
    const { code, stderr } = await extract(a!, b!, c!, '--limit', '12')
    expect(stderr).toMatch(/^limited +to the first 12 chunks; the rest was left out$/m)
    expect(stderr).toMatch(/documents +2 read/)
    expect(stderr).toMatch(/chunks +12 \(12 units done\)/)
    expect(server.counts.calls - before).toBe(12)
    expect(code).toBe(0)
  })

  test('does not mention a limit that was not exceeded', async () => {
    const { code, stderr } = await extract(file('a.txt', text), '--limit', '10')
    expect(stderr).not.toMatch(/limited/)
    expect(stderr).toMatch(/chunks +10 /)
    expect(code).toBe(0)
  })

  test('refuses a limit of 0', async () => {
    const { code, stderr } = await extract(file('a.txt', text), '--limit', '0')
    expect(stderr).toMatch(/--limit must be a whole number from 1 on, not "0"/)
    expect(code).toBe(2)
  })
})

describe('Ctrl-C', () => {
  test('prints the results so far and how to continue; the same command with --resume does the rest', async () => {
    const document = file('mill.txt', 'The mill stands by the river.\n\nThe miller grinds the grain.')
    const args = [
      'extract',
      document,
      '--extractors',
      'topics',
      '--chunk-size',
      '40',
      '--chunk-overlap',
      '0',
      '--concurrency',
      '1',
    ]
    const env = { ...configured(), GRAPHMILL_NO_CACHE: 'false', GRAPHMILL_CACHE_DIR: join(folder, 'cache') }
    let calls = 0
    let killed = false
    server.set({
      rules: [
        {
          reply: () =>
            ++calls === 2 ? { text: '', latencyMs: 30_000 } : '{"topic":"mill","definition":"a machine"}\n',
        },
      ],
    })
    const stopped = await graphmill(args, {
      env,
      onStderr: (said, kill) => {
        if (killed || !said.includes('1/2 units of 2 chunks')) return
        killed = true
        kill('SIGINT')
      },
    })
    expect(stopped.stderr).toMatch(/chunks +2 \(1 units done, 1 not finished\)/)
    expect(stopped.stderr).toMatch(/facts +.*\(of units that have ended; others may have written some\)/)
    expect(stopped.stderr).toMatch(/to go on, run the same command again with --resume/)
    expect(stopped.code).toBe(1)
    const resumed = await graphmill([...args, '--resume'], { env })
    expect(resumed.stderr).toMatch(/chunks +2 \(2 units done\)/)
    expect(resumed.code).toBe(0)
    expect(calls).toBe(3)
  })
})
