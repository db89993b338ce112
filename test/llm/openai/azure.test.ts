// Azure OpenAI's addresses, against a server that keeps their published rules.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createOpenAiProvider } from '../../../src/complete/openai/openai.ts'
import { readConfig } from '../../../src/config/config.ts'
import type { ErrorCode } from '../../../src/errors.ts'
import { openLlm } from '../../../src/llm/from-config.ts'
import type { CompletionEvent, Llm } from '../../../src/llm/llm.ts'
import { azureAddress } from '../../../src/llm/openai/azure.ts'
import { createOpenAi, type OpenAiOptions, onlyModel } from '../../../src/llm/openai/openai.ts'
import { type AzureScript, type AzureServer, startAzureServer } from '../../support/azure-server.ts'
import { graphmill } from '../../support/command.ts'
import type { Scripted } from '../../support/recording-server.ts'

const never = new AbortController().signal
const question = { messages: [{ role: 'user', content: 'What is a mill?' }] } as const
const apiKey = 'azure-key-123'
const apiVersion = '2024-10-21'

let server: AzureServer
afterEach(() => server?.close())

async function started(script: AzureScript = {}): Promise<AzureServer> {
  server = await startAzureServer({ rules: [{ reply: 'A machine.' }], ...script })
  return server
}

const model = (path = '', more: Partial<OpenAiOptions> = {}) =>
  createOpenAi({ baseUrl: server.origin + path, model: 'my-gpt', apiKey, azure: {}, ...more })

async function collect(llm: Llm) {
  const events: CompletionEvent[] = []
  for await (const event of llm.stream(question, never)) events.push(event)
  const text = events.map((event) => (event.type === 'delta' ? event.text : '')).join('')
  return { text, end: events.at(-1) }
}

const classicPath = `/openai/deployments/my-gpt/chat/completions?api-version=${apiVersion}`
const v1Path = '/openai/v1/chat/completions'

describe('a call', () => {
  it.each<[string, string, Partial<OpenAiOptions>, string]>([
    ['the endpoint alone', '/', {}, v1Path],
    ['the endpoint with /openai', '/openai/', {}, v1Path],
    ['the v1 address', '/openai/v1/', {}, v1Path],
    ['the v1 address with its operation', '/openai/v1/chat/completions', {}, v1Path],
    ['the v1 address, whatever dated version is set', '/openai/v1', { azure: { apiVersion } }, v1Path],
    [
      'the endpoint with the version v1',
      '',
      { azure: { apiVersion: 'preview' } },
      `${v1Path}?api-version=preview`,
    ],
    ['the endpoint and a version', '', { azure: { apiVersion } }, classicPath],
    [
      'a deployment with its version, known by its form',
      `/openai/deployments/my-gpt?api-version=${apiVersion}`,
      { azure: undefined },
      classicPath,
    ],
    ['the whole address of the portal', classicPath, { azure: undefined, model: 'other' }, classicPath],
    [
      "a version in the address before the variable's",
      classicPath,
      { azure: { apiVersion: '2020-01-01' } },
      classicPath,
    ],
  ])(
    'at %s goes to the API that it means, with the key in its header',
    async (_, path, options, expected) => {
      await started()
      const llm = model(path, options)
      expect((await collect(llm)).text).toBe('A machine.')
      await llm.ready(never)
      const [call, probe] = server.requests
      expect(call!.path).toBe(expected)
      expect(call!.headers).toMatchObject({ 'api-key': apiKey })
      expect(call!.headers.authorization).toBeUndefined()
      expect(probe!.path.split('?')[0]).toBe(
        expected.includes('/v1/') ? '/openai/v1/models' : '/openai/models',
      )
      expect(llm.destination).toBe(server.origin + expected.split('/chat/')[0])
    },
  )

  it('sends a token of Entra instead of the key', async () => {
    await started()
    await collect(model('', { azure: { token: 'entra-token-123' } }))
    expect(server.requests[0]!.headers.authorization).toBe('Bearer entra-token-123')
    expect(server.requests[0]!.headers['api-key']).toBeUndefined()
  })

  it('reads a stream whose first chunk has no choice, and others no delta', async () => {
    await started()
    const { end } = await collect(model())
    expect(end).toMatchObject({
      type: 'end',
      finishReason: 'stop',
      model: 'gpt-4.1',
      usage: { promptTokens: 5, totalTokens: 7 },
    })
  })

  it('of complete() goes the same way, whole and streamed', async () => {
    await started()
    const baseUrl = server.origin + classicPath
    const provider = createOpenAiProvider({ baseUrl, model: 'my-gpt', apiKey })
    for (const stream of [false, true])
      expect((await provider.complete(question, { stream })).message.content).toBe('A machine.')
    await provider.ready()
    expect(server.calls().map(({ path, headers }) => [path, headers['api-key']])).toEqual([
      [classicPath, apiKey],
      [classicPath, apiKey],
    ])
  })
})

describe('an address', () => {
  it.each([
    ['https://x.openai.azure.com', 'https://x.openai.azure.com/openai/v1'],
    ['https://x.cognitiveservices.azure.com/', 'https://x.cognitiveservices.azure.com/openai/v1'],
    ['https://x.services.ai.azure.com/openai/v1', 'https://x.services.ai.azure.com/openai/v1'],
    ['https://x.openai.azure.us', 'https://x.openai.azure.us/openai/v1'],
    [
      `https://gateway.example.org/a/openai/deployments/d%201?api-version=${apiVersion}`,
      'https://gateway.example.org/a/openai/deployments/d%201',
    ],
  ])('is recognised: %s', (address, expected) => {
    expect(azureAddress(address, undefined)?.base('m')).toBe(expected)
  })

  it.each([
    'https://api.openai.com/v1',
    'http://127.0.0.1:8080/v1',
    'https://openai.azure.com.example.org/openai/v1',
  ])('is of another server: %s', (address) => {
    expect(azureAddress(address, undefined)).toBeUndefined()
  })

  it('with a deployment needs a version', () => {
    expect(() => azureAddress('https://x.openai.azure.com/openai/deployments/d', undefined)).toThrow(
      expect.objectContaining({
        code: 'configuration_invalid',
        message: expect.stringContaining('OPENAI_API_VERSION'),
      }),
    )
  })

  it('with a deployment that is not encoded is an error of the configuration', () => {
    const address = 'https://x.openai.azure.com/openai/deployments/%zz?api-version=2024-10-21'
    expect(() => azureAddress(address, undefined)).toThrow(
      expect.objectContaining({ code: 'configuration_invalid' }),
    )
  })
})

describe('a failure', () => {
  const filtered = {
    message:
      "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
    type: null,
    param: 'prompt',
    code: 'content_filter',
    status: 400,
    innererror: {
      code: 'ResponsibleAIPolicyViolation',
      content_filter_result: { violence: { filtered: true, severity: 'high' } },
    },
  }
  const limited = {
    code: '429',
    message: 'Requests have exceeded call rate limit. Please retry after 12 seconds.',
  }
  it.each<[string, Scripted, ErrorCode]>([
    ['a filtered prompt', { status: 400, body: { error: filtered } }, 'llm_prompt_blocked'],
    [
      'a prompt that is filtered in mid-reply',
      { events: [{ choices: [], prompt_filter_results: [] }, { error: filtered }] },
      'llm_prompt_blocked',
    ],
    [
      'a limit',
      { status: 429, headers: { 'retry-after': '12', 'retry-after-ms': '11500' }, body: { error: limited } },
      'llm_rate_limited',
    ],
    [
      'an overload',
      {
        status: 503,
        body: { error: { code: 'ServiceUnavailable', message: 'The engine is currently overloaded.' } },
      },
      'llm_unavailable',
    ],
    [
      'a stream without a choice',
      { events: [{ choices: [], prompt_filter_results: [] }] },
      'llm_response_invalid',
    ],
  ])('of %s has its own code', async (_, answer, code) => {
    await started({ answers: [answer] })
    const retryAfterMs = code === 'llm_rate_limited' ? 11_500 : undefined
    await expect(collect(model())).rejects.toMatchObject({ code, retryAfterMs })
  })

  it('is a reply that the filter cut', async () => {
    const events = [
      { choices: [{ delta: { content: 'A ' }, finish_reason: null }] },
      { choices: [{ delta: {}, finish_reason: 'content_filter' }] },
      '[DONE]',
    ]
    await started({ answers: [{ events }] })
    expect(await collect(model())).toMatchObject({ text: 'A ', end: { finishReason: 'content_filter' } })
  })

  it('is a wrong key, an unknown deployment, or a wrong version of the API', async () => {
    await started()
    await expect(model('', { apiKey: 'wrong-key-123' }).ready(never)).rejects.toMatchObject({
      code: 'llm_authentication',
    })
    await expect(collect(model('', { model: 'other' }))).rejects.toMatchObject({ code: 'llm_model_unknown' })
    await expect(collect(model('', { azure: { apiVersion: '1' } }))).rejects.toMatchObject({
      code: 'llm_address_wrong',
    })
  })

  it('never shows the key', async () => {
    await started({ answers: [{ status: 400, body: { error: { message: `bad key ${apiKey}` } } }] })
    await expect(collect(model())).rejects.toThrow('[secret]')
  })
})

describe('the configuration', () => {
  const opened = (environment: Record<string, string>, flags: Record<string, string> = {}) =>
    openLlm(readConfig({ flags, environment }), undefined, never)

  it('is the variables that other programs read', async () => {
    await started()
    const environment = {
      AZURE_OPENAI_ENDPOINT: server.origin,
      AZURE_OPENAI_API_KEY: apiKey,
      OPENAI_API_VERSION: apiVersion,
    }
    const llm = await opened(environment, { model: 'my-gpt' })
    expect(llm).toMatchObject({
      provider: 'azure',
      destination: `${server.origin}/openai/deployments/my-gpt`,
    })
    expect((await collect(llm)).text).toBe('A machine.')
    expect(server.calls()[0]!.path).toBe(classicPath)
    await expect(opened(environment)).rejects.toMatchObject({ code: 'llm_model_unknown' })
  })

  it('needs no model when the address names the deployment, and prefers a token', async () => {
    await started()
    const AZURE_OPENAI_ENDPOINT = server.origin + classicPath
    const llm = await opened({
      AZURE_OPENAI_ENDPOINT,
      AZURE_OPENAI_API_KEY: 'other',
      AZURE_OPENAI_AD_TOKEN: 'entra-token-123',
    })
    expect((await collect(llm)).text).toBe('A machine.')
    expect(llm.model).toBe('my-gpt')
  })

  it('is also the address of an OpenAI-compatible server', async () => {
    await started()
    const llm = await opened({ OPENAI_BASE_URL: server.origin + classicPath, OPENAI_API_KEY: apiKey })
    expect(llm).toMatchObject({ provider: 'openai', model: 'my-gpt' })
    expect((await collect(llm)).text).toBe('A machine.')
    expect(await onlyModel({ baseUrl: server.origin + classicPath }, never)).toBe('my-gpt')
  })

  it('asks for the endpoint when only a key is set, and is not silently without a model', async () => {
    await expect(opened({ AZURE_OPENAI_API_KEY: 'k-12345678' })).rejects.toMatchObject({
      code: 'llm_not_configured',
      message: 'AZURE_OPENAI_ENDPOINT is not set.',
    })
  })

  it('names a server when two are configured', async () => {
    const environment = { AZURE_OPENAI_ENDPOINT: 'https://x.openai.azure.com', OPENAI_API_KEY: 'k-12345678' }
    await expect(opened(environment)).rejects.toMatchObject({
      code: 'configuration_invalid',
      message: expect.stringContaining('AZURE_OPENAI_ENDPOINT'),
    })
    const three = { ...environment, ANTHROPIC_API_KEY: 'k-12345678' }
    await expect(opened(three)).rejects.toThrow(
      /^Several model servers are configured, OpenAI .*, Anthropic .* and Azure OpenAI .*: name one with --llm\.$/,
    )
  })
})

describe('extract --llm azure', () => {
  let folder: string
  let document: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'graphmill-azure-'))
    document = join(folder, 'mill.txt')
    writeFileSync(document, 'The mill stands by the river. The miller grinds grain.')
  })
  afterAll(() => rmSync(folder, { recursive: true }))

  const topics = (...names: readonly string[]) =>
    names.map((name) => `{"topic":"${name}","definition":"What ${name} are."}\n`).join('')
  const command = (name: string, args: readonly string[], more: Readonly<Record<string, string>> = {}) => {
    const env = {
      AZURE_OPENAI_ENDPOINT: server.origin,
      AZURE_OPENAI_API_KEY: apiKey,
      GRAPHMILL_LLM: 'azure',
      GRAPHMILL_MODEL: 'my-gpt',
    }
    return graphmill([name, ...args], { env: { ...env, ...more }, cwd: folder })
  }
  const extract = (more?: Readonly<Record<string, string>>) =>
    command('extract', [document, '--extractors', 'topics'], more)

  it('gives facts at both addresses, and a second run asks nothing', async () => {
    await started({ rules: [{ reply: topics('mills', 'rivers') }] })
    const cache = { GRAPHMILL_NO_CACHE: 'false', GRAPHMILL_CACHE_DIR: join(folder, 'cache') }
    const first = await extract(cache)
    const second = await extract(cache)
    const classic = await extract({ OPENAI_API_VERSION: apiVersion })
    expect(first.stderr).toContain(`the text goes to azure my-gpt at ${server.origin}/openai/v1`)
    for (const { code, stderr, stdout } of [first, second, classic]) {
      expect(stderr).toMatch(/facts +2 topics/)
      expect([code, stdout]).toEqual([0, first.stdout])
    }
    expect(server.calls().map(({ path }) => path)).toEqual([v1Path, classicPath])
  })

  it('waits after a refusal, continues a reply that was cut off, and asks again for an invalid item', async () => {
    const [first, rest] = [`{"topic":"mills"}\n${topics('rivers')}`, topics('grain')]
    const limited = {
      status: 429,
      headers: { 'retry-after-ms': '500' },
      body: { error: { code: '429', message: 'Please retry.' } },
    }
    await started({
      answers: [limited],
      rules: [
        { match: 'does not fit its schema', reply: topics('mills') },
        { match: 'cut off', reply: rest },
        { reply: { text: first + rest, truncateAfter: Math.ceil((first.length + 14) / 4) } },
      ],
    })
    const { code, stderr } = await extract()
    expect(stderr).toMatch(/facts +3 topics/)
    expect(code).toBe(0)
    expect(server.calls()).toHaveLength(4)
  })

  it('reports a filtered prompt as a dead chunk with its remedy; doctor checks the key', async () => {
    await started({
      answers: [
        { status: 400, body: { error: { code: 'content_filter', message: 'The response was filtered.' } } },
      ],
    })
    const { code, stderr } = await extract()
    expect(stderr).toMatch(/which its filter blocked \(400\).*\[llm_prompt_blocked\] Read the text/)
    expect(code).toBe(4)
    const doctor = await command('doctor', [])
    expect(doctor.stdout).toMatch(/key .*accepts it/)
    expect(doctor.stdout).toMatch(/model .*azure my-gpt .*answers/)
    expect((await command('doctor', [], { AZURE_OPENAI_API_KEY: 'wrong-key-1234' })).stdout).toMatch(
      /key .*\[llm_authentication\]/,
    )
  })
})
