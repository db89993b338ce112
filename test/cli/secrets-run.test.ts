// `graphmill run` on a real Kafka while its peers return what they are sent, and while its secrets change: none of its output
// shows a secret.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../src/broker/connect.ts'
import { brokerSource } from '../support/brokers.ts'
import { type EchoServer, shownOf, startEchoServer } from '../support/echo-server.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, graphmill, startGraphmill } from '../support/processes.ts'

const key = 'sk-proj-Zz9/yX8+wV7uT6sR5qP4oN3m'
const password = 'rg7x-9q2w@pass/word-1'
const secrets = [key, password, `miller:${password}`]
const never = new AbortController().signal

const present = (await brokerSource('secrets of graphmill run, on Kafka', ['jars'])) !== undefined

describe.skipIf(!present)('graphmill run', { timeout: 180_000 }, () => {
  const patience = { timeout: 90_000, interval: 300 }
  const started: GraphmillProcess[] = []
  let kafka: KafkaServer
  let echo: EchoServer
  let folder: string

  beforeAll(async () => {
    kafka = await startKafka()
    echo = await startEchoServer()
    folder = mkdtempSync(join(tmpdir(), 'graphmill-'))
  })
  afterAll(async () => {
    for (const runtime of started) await runtime.end('SIGKILL')
    await echo?.[Symbol.asyncDispose]()
    await kafka?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const url = () => `kafka://${kafka.bootstrap.join()}`

  function file(name: string, text: string): string {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }

  async function start(flow: string, args: readonly string[], environment: Record<string, string>) {
    const [port] = await freePorts(1)
    const http = `127.0.0.1:${port}`
    const runtime = startGraphmill(
      ['run', ...args, '--broker', url(), '--flow', flow, '--http', http, '--log-level', 'trace'],
      { GRAPHMILL_NO_CACHE: 'true', GRAPHMILL_MODEL: 'test-model', ...environment },
    )
    started.push(runtime)
    const get = async (page: string) => (await fetch(`http://${http}/${page}`)).text()
    return { runtime, get, pages: async () => (await Promise.all(pages.map(get))).join('\n') }
  }
  const pages = ['healthz', 'readyz', 'metrics', 'status.json']

  const load = (flow: string) =>
    graphmill('load', file('mill.txt', 'A mill grinds grain.'), '--broker', url(), '--flow', flow)

  /** Everything on the topics of a flow, byte for byte, with keys and headers. */
  async function topicsOf(flow: string): Promise<string> {
    const broker = await connect(url())
    try {
      let text = ''
      for (const { name } of await broker.listTopics('gm.')) {
        if (!name.includes(`.${flow}`)) continue
        for await (const entry of broker.read({ topic: name, from: 'earliest', until: 'end' }, never))
          text += `${name} ${entry.key} ${JSON.stringify(entry.headers)} ${Buffer.from(entry.value).toString('latin1')}\n`
      }
      return text
    } finally {
      await broker.close()
    }
  }

  test.each([
    ['refused', 'dead-message'],
    ['no-json', 'dead-message'],
    ['unauthorized', undefined],
  ] as const)('shows no key that a model echoes: %s', async (mode, letter) => {
    const { runtime, get, pages } = await start(mode, ['--all', '--out', join(folder, `out-${mode}`)], {
      OPENAI_BASE_URL: `${echo.at(mode)}/v1`,
      OPENAI_API_KEY_FILE: file('key', `${key}\n`),
    })
    await runtime.says('"msg":"running"')
    await load(mode)
    if (letter) await expect.poll(() => topicsOf(mode), patience).toContain(letter)
    // The reason for the pause is on the HTTP pages, with the message of the server.
    else await expect.poll(() => get('metrics'), patience).toMatch(/graphmill_circuit_open\{.*llm.*\} 1/)
    await expect.poll(() => runtime.stderr(), patience).toContain('[secret]')
    const place = ['--broker', url(), '--flow', mode]
    const said = await Promise.all([graphmill('dead', 'show', ...place), graphmill('status', ...place)])
    expect(shownOf(secrets, await pages())).toEqual([])
    expect(shownOf(secrets, await topicsOf(mode))).toEqual([])
    expect(shownOf(secrets, said.join('\n'))).toEqual([])
    await runtime.end('SIGTERM')
    expect(shownOf(secrets, runtime.stderr() + runtime.stdout())).toEqual([])
  })

  test.each(['unauthorized', 'broken'] as const)(
    'shows no password that a store returns: %s',
    async (mode) => {
      const store = echo.at(mode).replace('//', `//miller:${encodeURIComponent(password)}@`)
      const flow = `store-${mode}`
      const { runtime, pages } = await start(flow, ['--all', '--llm', 'offline', '--store', store], {})
      await load(flow)
      await runtime.says('[secret]')
      expect(shownOf(secrets, await pages())).toEqual([])
      expect(shownOf(secrets, await topicsOf(flow))).toEqual([])
      await runtime.end('SIGTERM')
      expect(runtime.stderr()).toMatch(/The store at /)
      expect(shownOf(secrets, runtime.stderr() + runtime.stdout())).toEqual([])
    },
  )

  test('reports an invalid secret file, continues with its previous value, and uses the next one', async () => {
    const values = ['sk-first-Ab3dEfGh1JkL', 'sk-second-Mn4pQrSt2UvW']
    await using llm = await startLlmServer()
    const path = file('rotated', values[0]!)
    const { runtime, get, pages } = await start('rotated', ['--all', '--out', join(folder, 'out-rotated')], {
      OPENAI_BASE_URL: llm.url,
      OPENAI_API_KEY_FILE: path,
    })
    await runtime.says('"msg":"running"')
    const sent = () => new Set(llm.requests.map(({ headers }) => headers['authorization']))
    const isCurrent = (value: 0 | 1) =>
      expect
        .poll(() => get('metrics'), patience)
        .toMatch(new RegExp(`^graphmill_configuration_current(?:\\{.*\\})? ${value}$`, 'm'))
    await isCurrent(1)

    file('rotated', `${values[1]}\nand more`)
    await runtime.says('the change is refused')
    await isCurrent(0)
    expect(JSON.parse(await get('status.json')).configurationProblem).toContain('OPENAI_API_KEY_FILE')
    await load('rotated')
    await expect.poll(sent, patience).toEqual(new Set([`Bearer ${values[0]}`]))

    const before = llm.requests.length
    file('rotated', values[1]!)
    await isCurrent(1)
    const again = file('wheel.txt', 'A wheel turns a mill.')
    await graphmill('load', again, '--broker', url(), '--flow', 'rotated')
    await expect
      .poll(() => llm.requests.slice(before).map(({ headers }) => headers['authorization']), patience)
      .toContain(`Bearer ${values[1]}`)
    expect(shownOf(values, await pages())).toEqual([])
    expect((await runtime.end('SIGTERM')).code).toBe(0)
    expect(shownOf(values, runtime.stderr() + runtime.stdout())).toEqual([])
  })
})
