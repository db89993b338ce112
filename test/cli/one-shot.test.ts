// A command that cannot work ends at once: with a non-zero code, a sentence about the problem and one about what to do.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { type ErrorCode, errorTable } from '../../src/errors.ts'
import { graphmill } from '../support/command.ts'
import type { Refusal } from '../support/llm-script.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { startOllamaServer } from '../support/ollama-server.ts'
import { freePorts } from '../support/ports.ts'
import { startRecordingServer } from '../support/recording-server.ts'

let server: LlmServer
let folder: string
let document: string
beforeAll(async () => {
  server = await startLlmServer()
  folder = mkdtempSync(join(tmpdir(), 'graphmill-one-shot-'))
  document = join(folder, 'mill.txt')
  writeFileSync(document, 'The mill stands by the river. The miller grinds grain.')
})
afterEach(async () => {
  server.set({ refuse: undefined, apiKey: undefined, models: undefined, rules: undefined })
  await server.back()
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})

const configured = () => ({
  OPENAI_BASE_URL: server.url,
  OPENAI_API_KEY: 'sk-secret-of-the-test',
  GRAPHMILL_MODEL: 'test-model',
})

const extract = (env: Readonly<Record<string, string>>, ...args: string[]) =>
  graphmill(['extract', document, ...args], { env, cwd: folder })

/** Seconds that a process may take to start and fail on a busy machine. */
const soon = 15

/** The last lines: the problem with its code, and what to do. */
const lastWords = (code: ErrorCode, sentence: RegExp) => ({
  asymmetricMatch: (stderr: string) => {
    const [problem = '', remedy = ''] = stderr.trimEnd().split('\n').slice(-2)
    return (
      problem.startsWith('graphmill: ') &&
      problem.endsWith(`[${code}]`) &&
      sentence.test(problem) &&
      remedy === errorTable[code].remedy
    )
  },
  toString: () => `last words ${code} ${sentence}`,
})

async function inTime<R>(run: Promise<R>): Promise<R> {
  const started = performance.now()
  const result = await run
  expect((performance.now() - started) / 1000).toBeLessThan(soon)
  return result
}

describe('a model that cannot be used', () => {
  test('a key that the server does not accept', async () => {
    server.set({ apiKey: 'another' })
    const { code, stdout, stderr } = await inTime(extract(configured()))
    expect(stderr).toEqual(lastWords('llm_authentication', /refused the key \(401\)/))
    expect(stderr).not.toContain('sk-secret')
    expect(stdout).toBe('')
    expect(code).toBe(1)
  })

  test('a model that the server does not list; the error names the models that it has', async () => {
    server.set({ models: ['large', 'small'] })
    const { code, stderr } = await inTime(extract(configured()))
    expect(stderr).toEqual(lastWords('llm_model_unknown', /test-model: large, small/))
    expect(code).toBe(1)
  })

  test('no model named, and the server has several', async () => {
    server.set({ models: ['large', 'small'] })
    const { code, stderr } = await inTime(extract({ OPENAI_BASE_URL: server.url }))
    expect(stderr).toEqual(lastWords('llm_model_unknown', /No model is named.*large, small/))
    expect(code).toBe(1)
  })

  // These servers list the model, and refuse the first call.
  test.each<[Refusal, ErrorCode, RegExp]>([
    ['unauthorized', 'llm_authentication', /\(401\)/],
    ['forbidden', 'llm_authentication', /\(403\)/],
    ['model-unknown', 'llm_model_unknown', /\(404\).*test-model/],
    ['quota', 'llm_quota_exhausted', /\(429\).*quota/],
  ])('a server that answers the first call with %s', async (kind, error, sentence) => {
    server.set({ refuse: { kind } })
    const { code, stdout, stderr } = await inTime(extract(configured()))
    expect(stderr).toEqual(lastWords(error, sentence))
    expect(stdout).toBe('')
    expect(code).toBe(1)
  })

  test('an address with a wrong path, which is not a fault of the documents', async () => {
    const address = `${server.url}/chat`
    const { code, stderr } = await inTime(extract({ ...configured(), OPENAI_BASE_URL: address }))
    expect(stderr).toEqual(lastWords('llm_address_wrong', /takes no requests at this path \(404\): no route/))
    expect(stderr).toContain('Set OPENAI_BASE_URL to the part of the address before /chat/completions')
    expect(code).toBe(1)
  })

  test('an address of a web page, on which nothing waits', async () => {
    const portal = await startRecordingServer([
      { body: '<!doctype html><html>Welcome to the gateway</html>' },
    ])
    const servers = [{ OPENAI_BASE_URL: portal.url, OPENAI_API_KEY: 'k' }, { OLLAMA_HOST: portal.origin }]
    try {
      for (const address of servers) {
        const { code, stderr } = await inTime(extract({ ...address, GRAPHMILL_MODEL: 'm' }))
        expect(stderr).toEqual(lastWords('llm_address_wrong', /is a web page: .*Welcome/))
        expect(stderr).toContain('set OLLAMA_HOST to host and port only')
        expect(code).toBe(1)
      }
    } finally {
      await portal.close()
    }
  })

  test('a key that is revoked in the middle keeps the results so far', async () => {
    server.set({
      rules: [
        { match: 'definition', in: 'all', reply: '{"entity":"mill","definition":"a machine"}\n' },
        { reply: { refuse: 'unauthorized', latencyMs: 1000 } },
      ],
    })
    const { code, stdout, stderr } = await inTime(extract(configured()))
    expect(stderr).toEqual(lastWords('llm_authentication', /refused the key/))
    expect(stdout).toMatch(/a machine/)
    expect(code).toBe(1)
  })

  test('a server that refuses the connection', async () => {
    await server.away('refuse')
    const { code, stderr } = await inTime(extract(configured()))
    expect(stderr).toEqual(lastWords('llm_unavailable', /cannot be reached: ECONNREFUSED/))
    expect(code).toBe(1)
  })

  test('an Ollama that does not run, or does not have the model', async () => {
    const [port] = await freePorts(1)
    const none = await inTime(extract({ OLLAMA_HOST: `127.0.0.1:${port}` }))
    expect(none.stderr).toEqual(lastWords('llm_unavailable', /cannot be reached: ECONNREFUSED/))
    expect(none.code).toBe(1)

    const ollama = await startOllamaServer({ models: ['tiny:latest', 'huge:latest'] })
    const env = { OLLAMA_HOST: ollama.host }
    const [wrong, unnamed] = await inTime(Promise.all([extract(env, '--model', 'other'), extract(env)]))
    await ollama.close()
    for (const { code, stderr } of [wrong, unnamed]) {
      expect(stderr).toEqual(lastWords('llm_model_unknown', /tiny:latest, huge:latest/))
      expect(code).toBe(1)
    }
  })
})

test('a server that refuses every request is reported with its message, and every chunk is dead', async () => {
  server.set({ refuse: { kind: 'invalid' } })
  const { code, stderr } = await inTime(extract(configured()))
  expect(stderr).toMatch(
    /refused the request \(400\).*expected an array.*\[llm_request_invalid\] See the message/,
  )
  expect(stderr.match(/\[llm_request_invalid\]/g)).toHaveLength(1)
  expect(code).toBe(4)
})

test('extract waits for a server that becomes unavailable in the middle, and says so', async () => {
  server.set({ rules: [{ reply: { refuse: 'server-error' } }] })
  const { code, stderr } = await graphmill(['extract', document], {
    env: configured(),
    cwd: folder,
    onStderr: (text) => {
      if (text.includes(`waiting for openai ${server.url} test-model`)) server.set({ rules: undefined })
    },
  })
  expect(stderr).toContain('waiting for openai')
  expect(code).toBe(0)
})

describe('wrong usage exits with 2', () => {
  const wrong: readonly [what: string, env: () => Record<string, string>, args: string[], said: RegExp][] = [
    [
      'two servers without --llm',
      () => ({ ...configured(), OLLAMA_HOST: '127.0.0.1' }),
      [],
      /OPENAI_BASE_URL or OPENAI_API_KEY.*OLLAMA_HOST.*--llm/,
    ],
    ['a flag that there is not', configured, ['--modle', 'm'], /Unknown option '--modle'\. .*--model/],
    [
      'an extractor that there is not',
      configured,
      ['--extractors', 'definitons'],
      /definitons\. Did you mean .*definitions\?/,
    ],
    [
      'a provider that there is not',
      configured,
      ['--llm', 'opena'],
      /must be one of openai, ollama, .*offline/,
    ],
    ['a count that is none', configured, ['--requests-per-minute', 'many'], /requests-per-minute.*number/],
    ['an address that is none', () => ({ OPENAI_BASE_URL: 'nonsense' }), [], /address of the model server/],
  ]
  test.each(wrong)('%s', async (_, env, args, said) => {
    const { code, stdout, stderr } = await inTime(extract(env(), ...args))
    expect(stderr).toMatch(said)
    expect(stdout).toBe('')
    expect(code).toBe(2)
  })

  test.each<[string, string[], RegExp]>([
    ['an address that names no broker', ['--broker', 'nonsense'], /names no broker.*\[broker_url_invalid\]/],
    ['an address of Pulsar without a port', ['--broker', 'pulsar://127.0.0.1'], /\[broker_url_invalid\]/],
    [
      'a workspace that can be part of no topic',
      ['--broker', 'kafka://127.0.0.1:9', '--workspace', 'A'],
      /\[topic_name_invalid\]/,
    ],
  ])('%s', async (_, args, said) => {
    const { code, stdout, stderr } = await inTime(graphmill(['tail', 'chunk', ...args]))
    expect(stderr).toMatch(said)
    expect(stdout).toBe('')
    expect(code).toBe(2)
  })

  test('no file, and an unknown command', async () => {
    const [none, command] = await Promise.all([graphmill(['extract']), graphmill(['extrakt', document])])
    expect(none.code).toBe(2)
    expect(command.code).toBe(2)
    expect(command.stderr).toMatch(/Did you mean extract/)
  })

  test('an unknown format of parse, or a format with a response type', async () => {
    const [format, both] = await Promise.all([
      graphmill(['parse', '--format', 'csv']),
      graphmill(['parse', '--format', 'ndjson', '--response-type', 'json']),
    ])
    expect(format).toMatchObject({ code: 2, stderr: expect.stringMatching(/ndjson, jsonl, json-seq/) })
    expect(both).toMatchObject({ code: 2, stderr: expect.stringMatching(/cannot be used with/) })
  })
})
