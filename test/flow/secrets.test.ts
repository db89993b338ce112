// What peers echo of secrets does not get onto topics, into pages or spans; a secret that changes is sent by the next request.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { register } from 'prom-client'
import { afterAll, afterEach, describe, expect, test } from 'vitest'
import { prompt } from '../../processors/prompt.ts'
import { textCompletion } from '../../processors/text-completion.ts'
import { createClient, kafkaSettings } from '../../src/broker/kafka/client.ts'
import { openCluster } from '../../src/broker/kafka/quirks.ts'
import { endpointOf } from '../../src/broker/pulsar/endpoint.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { readConfig } from '../../src/config/config.ts'
import { GraphmillError } from '../../src/errors.ts'
import { createCircuits } from '../../src/flow/runner/circuits.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { serveHttp } from '../../src/observe/http.ts'
import { createLogger } from '../../src/observe/log.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import { createEmbed } from '../../src/ontology/embeddings.ts'
import { openSparqlStore } from '../../src/rdf/sparql-store.ts'
import { iri, triple } from '../../src/rdf/term.ts'
import { mountConfigMap } from '../support/config-map.ts'
import { type EchoMode, echoModes, shownOf, startEchoServer } from '../support/echo-server.ts'
import { startFlow, type TestFlow } from '../support/flow.ts'
import { startRecordingServer } from '../support/recording-server.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

const key = 'sk-proj-Zz9/yX8+wV7uT6sR5qP4oN3m'
const never = new AbortController().signal

interface KafkajsCluster {
  readonly connectionPoolBuilder: {
    build(at: { host: string; port: number }): Promise<{ readonly sasl: { readonly password: string } }>
  }
}

let flow: TestFlow | undefined
afterEach(async () => {
  await flow?.stop()
  flow = undefined
})

const replyTo = 'gm.response.prompt.extract-definitions.default.default'
const request = {
  promptId: 'extract-definitions',
  terms: { text: JSON.stringify('A mill.') },
  streaming: true,
  context: { unit: 'extract-definitions', part: '0' },
}

/** All that the topics hold, as text: headers, keys and the messages as they are read. */
async function topicsOf({ broker, codec }: TestFlow): Promise<string> {
  let text = ''
  for (const { name } of await broker.listTopics('gm.'))
    for await (const entry of broker.read({ topic: name, from: 'earliest', until: 'end' }, never)) {
      text += `${name} ${JSON.stringify(entry.headers)} ${Buffer.from(entry.value).toString('latin1')}\n`
      if (entry.headers['type'])
        text += `${JSON.stringify(codec.decode(entry.value, entry.headers).payload)}\n`
    }
  return text
}

describe('a model that echoes the key', () => {
  const dying: EchoMode[] = ['refused', 'cut', 'no-json']

  test.each(dying)('kills a request without showing it in letter, reply or progress: %s', async (mode) => {
    await using echo = await startEchoServer()
    const llm = createOpenAi({ baseUrl: `${echo.at(mode)}/v1`, apiKey: key, model: 'm' })
    flow = await startFlow([prompt, textCompletion], { llm })
    await flow.broker.ensureTopics([topicSpec(replyTo)])
    await flow.send('prompt', request, { replyTo })
    const [letter] = await flow.letters('prompt', 1)
    expect(letter!.headers['dead-message']).toContain('[secret]')
    const text = await topicsOf(flow)
    expect(text).toContain('dead-message')
    expect(shownOf([key], text)).toEqual([])
  })

  test.each(['refused', 'no-json', 'unauthorized', 'error-in-json', 'error-event'] as const)(
    'is heard of in the log, and shown on no topic, page or line of it: %s',
    async (mode) => {
      await using echo = await startEchoServer()
      const baseUrl = `${echo.at(mode)}/v1`
      let log = ''
      const [metrics, circuits] = [createMetrics({ priceOf: () => undefined }), createCircuits()]
      flow = await startFlow([prompt, textCompletion], {
        llm: createOpenAi({ baseUrl, apiKey: key, model: 'm' }),
        log: createLogger('trace', {
          write(line) {
            log += line
          },
        }),
        metrics,
        circuits,
      })
      await flow.broker.ensureTopics([topicSpec(replyTo)])
      await flow.send('prompt', request, { replyTo })
      await expect.poll(() => log, { timeout: 20_000 }).toContain('[secret]')
      const http = await serveHttp({
        address: '127.0.0.1:0',
        insist: true,
        registry: metrics.registry,
        state: () => 'ready',
        details: () => ({ unavailable: circuits.open() }),
        status: async () => ({
          reasons: circuits.open().map((name) => circuits.reason(name)?.message),
          consumers: await metrics.consumers(),
        }),
      })
      try {
        for (const page of ['readyz', 'status.json', 'metrics']) {
          const answer = await (await fetch(`${http.url}/${page}`)).text()
          expect(answer).not.toBe('')
          expect(shownOf([key], answer)).toEqual([])
        }
      } finally {
        await http.close()
      }
      expect(shownOf([key], await topicsOf(flow))).toEqual([])
      expect(shownOf([key], log)).toEqual([])
    },
  )

  test('has what was rejected of its reply without it', async () => {
    // The first use of a key makes it known.
    await using echo = await startEchoServer()
    await createOpenAi({ baseUrl: `${echo.at('refused')}/v1`, apiKey: key, model: 'm' })
      .ready(never)
      .catch(() => undefined)
    const llm = scriptedLlm([`{"entity":"e","wrong":"${key}"}\n{"entity":"e","definition":"d"}\n`])
    flow = await startFlow([prompt], { llm })
    await flow.broker.ensureTopics([topicSpec(replyTo)])
    await flow.send('prompt', request, { replyTo })
    const [rejected] = await flow.first(flow.topic('rejected'), 1)
    expect(JSON.stringify(rejected!.payload)).toContain('[secret]')
    expect(shownOf([key], JSON.stringify(rejected!.payload))).toEqual([])
  })
})

test('errors of every peer and of the library show nothing, in every way in which a server answers', async () => {
  await using echo = await startEchoServer()
  const token = 'store-token-Q1w2E3r4T5y6'
  const password = 'basic-password/9+8=7'
  const embedding = 'embed-key-A9b8C7d6E5'
  const said: unknown[] = []
  const note = (thrown: unknown): void => {
    for (let error = thrown; error instanceof Error; error = error.cause)
      said.push(error.message, error.stack, error instanceof GraphmillError && error.details)
  }
  for (const mode of Object.keys(echoModes) as EchoMode[]) {
    const url = echo.at(mode)
    const llm = createOpenAi({ baseUrl: `${url}/v1`, apiKey: key, model: 'm' })
    const withUser = new URL(url)
    withUser.username = 'miller'
    withUser.password = password
    readConfig({ flags: { store: withUser.href }, environment: {} })
    await llm.ready(never).catch(note)
    await (async () => {
      for await (const _ of llm.stream({ messages: [{ role: 'user', content: 'x' }] }, never));
    })().catch(note)
    await openSparqlStore({ url, token })
      .write([], {} as never, never)
      .catch(note)
    await openSparqlStore({ url: withUser.href })
      .write([], {} as never, never)
      .catch(note)
    await createEmbed({ url: `${url}/v1`, model: 'm', apiKey: embedding, timeoutMs: 5000 })(['x']).catch(note)
  }
  const text = said.map((each) => JSON.stringify(each)).join('\n')
  expect(said.length).toBeGreaterThan(40)
  expect(text).toContain('[secret]')
  expect(shownOf([key, token, password, `miller:${password}`, embedding], text)).toEqual([])
})

test('HTTP pages show nothing, though what they tell of does', async () => {
  await createOpenAi({ baseUrl: 'http://127.0.0.1:9/v1', apiKey: key, model: 'm' })
    .ready(never)
    .catch(() => undefined)
  const http = await serveHttp({
    address: '127.0.0.1:0',
    insist: true,
    registry: register,
    state: () => 'ready',
    details: () => ({ unavailable: [`llm ${key}`] }),
    status: async () => ({
      configurationProblem: `"${Buffer.from(key).toString('base64')}" and ${JSON.stringify(key)}`,
    }),
  } as Parameters<typeof serveHttp>[0])
  try {
    for (const page of ['readyz', 'status.json']) {
      const answer = await (await fetch(`${http.url}/${page}`)).text()
      expect(JSON.parse(answer)).toBeTypeOf('object')
      expect(answer).toContain('[secret]')
      expect(shownOf([key], answer)).toEqual([])
    }
  } finally {
    await http.close()
  }
})

describe('a secret in a file that is swapped as the kubelet does it', () => {
  const folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  let version = 0
  const mount = (secret: string) => mountConfigMap(folder, { version: `v${++version}`, files: { secret } })
  const sent = (server: Awaited<ReturnType<typeof startRecordingServer>>) =>
    server.requests.map(({ headers }) => headers.authorization)
  const file = join(folder, 'secret')
  mount('first-value-1234')
  const { options, servers } = readConfig({
    flags: {
      'store-token-file': file,
      'embeddings-key-file': file,
      'pulsar-token-file': file,
      'sasl-password-file': file,
    },
    environment: { OPENAI_API_KEY_FILE: file },
  })
  afterEach(() => mount('first-value-1234'))
  afterAll(() => rmSync(folder, { recursive: true }))

  test('is sent by the next call of a model, and the old one stays hidden', async () => {
    await using server = await startRecordingServer([
      { status: 400, body: { error: { message: 'no' } } },
      { status: 400, body: { error: { message: 'no first-value-1234 nor second-value-567' } } },
    ])
    const spec = { baseUrl: server.url, apiKey: servers.openaiApiKey, model: 'm' }
    const llm = createOpenAi(spec)
    const ask = async () => {
      for await (const _ of llm.stream({ messages: [{ role: 'user', content: 'x' }] }, never));
    }
    await ask().catch(() => undefined)
    mount('second-value-567')
    await expect(ask()).rejects.toThrow('no [secret] nor [secret]')
    expect(sent(server)).toEqual(['Bearer first-value-1234', 'Bearer second-value-567'])
  })

  test('is sent by the next request to a store and to an embeddings server', async () => {
    await using server = await startRecordingServer([{}])
    const runtime = iri('http://example.org/mill')
    const store = openSparqlStore({ url: `${server.origin}/update`, token: options['store-token'] })
    const embed = createEmbed({
      url: server.url,
      model: 'm',
      apiKey: options['embeddings-key'],
      timeoutMs: 5000,
    })
    await store.write([triple(runtime, runtime, runtime)], {} as never, never)
    await embed(['x']).catch(() => undefined)
    mount('second-value-567')
    await store.write([triple(runtime, runtime, runtime)], {} as never, never)
    await embed(['x']).catch(() => undefined)
    const [first, second] = ['Bearer first-value-1234', 'Bearer second-value-567']
    // The first write begins with an empty one.
    expect(sent(server)).toEqual([first, first, first, second, second])
  })

  test('is used by the next connection to a broker', async () => {
    const pulsar = endpointOf({ url: 'ws://127.0.0.1:1', token: options['pulsar-token']! })
    const sasl = { mechanism: 'plain', username: 'me', password: options['sasl-password']! } as const
    const { kafka } = createClient(kafkaSettings({ brokers: ['127.0.0.1:1'], sasl }), {})
    const { connectionPoolBuilder } = openCluster(kafka) as unknown as KafkajsCluster
    // What kafkajs hands to every connection, and reads when it authenticates one.
    const connection = await connectionPoolBuilder.build({ host: '127.0.0.1', port: 1 })
    expect(await pulsar.headers()).toEqual({ authorization: 'Bearer first-value-1234' })
    expect(connection.sasl.password).toBe('first-value-1234')
    mount('second-value-567')
    expect(await pulsar.headers()).toEqual({ authorization: 'Bearer second-value-567' })
    expect(connection.sasl.password).toBe('second-value-567')
  })
})
