// `graphmill run prompt` on a real Kafka, following a stand-in of TrustGraph's configuration service that speaks its JSON.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Broker } from '../../src/broker/broker.ts'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { kafkaTopic, usualIdentifiers } from '../../src/trustgraph/names.ts'
import { brokerSource } from '../support/brokers.ts'
import { type KafkaServer, startKafka } from '../support/kafka-server.ts'
import { type LlmServer, startLlmServer } from '../support/llm-server.ts'
import { freePorts } from '../support/ports.ts'
import { type GraphmillProcess, startGraphmill } from '../support/processes.ts'
import { type ConfigStandIn, startConfigStandIn } from '../support/trustgraph-config.ts'

const present = (await brokerSource('flows that follow TrustGraph, on Kafka', ['jars'])) !== undefined

const flows = `
flows:
  - wire: trustgraph
    trustgraph: { workspace: "*", flow: "*", follow: true }
`
const topics = {
  request: kafkaTopic('request:tg:config'),
  response: kafkaTopic('response:tg:config'),
  notify: kafkaTopic('notify:tg:config'),
}

describe.skipIf(!present)('flows that follow TrustGraph', { timeout: 120_000 }, () => {
  let kafka: KafkaServer
  let llm: LlmServer
  let broker: Broker
  let service: ConfigStandIn
  let folder: string
  let runtime: GraphmillProcess
  let http: string
  const stop = new AbortController()
  let ids = 0

  beforeAll(async () => {
    kafka = await startKafka()
    llm = await startLlmServer({ rules: [{ reply: ({ prompt }) => `heard: ${prompt}` }] })
    broker = await connectKafka({ brokers: kafka.bootstrap })
    service = await startConfigStandIn(broker, topics)
    service.refuse('the store is not there')
    folder = mkdtempSync(join(tmpdir(), 'graphmill-followed-'))
    writeFileSync(join(folder, 'flows.yaml'), flows)
    const [port] = await freePorts(1)
    http = `http://127.0.0.1:${port}`
    const options = ['--flows', join(folder, 'flows.yaml'), '--http', `127.0.0.1:${port}`, '--no-cache']
    runtime = startGraphmill(
      ['run', 'prompt', '--broker', `kafka://${kafka.bootstrap.join(',')}`, ...options],
      { OPENAI_BASE_URL: llm.url, GRAPHMILL_MODEL: 'test-model' },
    )
  })
  afterAll(async () => {
    stop.abort()
    await runtime?.end('SIGKILL')
    await service?.[Symbol.asyncDispose]()
    await broker?.close()
    await llm?.close()
    await kafka?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const ready = async () => (await fetch(`${http}/readyz`)).status
  const status = async () => (await (await fetch(`${http}/status.json`)).json()) as Record<string, unknown>
  const until = (look: () => Promise<unknown>) => expect.poll(look, { timeout: 30_000, interval: 50 })

  /** What TrustGraph's client gets from our prompt processor. */
  async function ask(workspace: string, flow: string, id = 'question'): Promise<Record<string, unknown>> {
    const request = `${++ids}`
    const names = usualIdentifiers(workspace, flow)
    const topic = kafkaTopic(names['prompt-reply'])
    const value = Buffer.from(JSON.stringify({ id, terms: { q: '"why?"' }, streaming: false }))
    const over = new AbortController()
    const until = AbortSignal.any([stop.signal, over.signal])
    // A new group begins at the end, and may miss what is sent while it begins.
    const publish = () =>
      broker.publish({ topic: kafkaTopic(names.prompt), key: '', value, headers: { id: request } })
    await publish()
    const again = setInterval(publish, 3000)
    try {
      for await (const reply of broker.read({ topic, from: 'earliest', until: 'never' }, until))
        if (reply.headers['id'] === request) return JSON.parse(Buffer.from(reply.value).toString())
    } finally {
      clearInterval(again)
      over.abort()
    }
    throw new Error('There was no reply.')
  }
  const template = (prompt: string) => ({ prompt, 'response-type': 'text' })

  test('wait at the start until the service answers, and say so', async () => {
    await runtime.says("waiting for TrustGraph's configuration service")
    expect(await ready()).toBe(503)
    expect(await status()).toMatchObject({ ready: false, flows: [], unavailable: ['trustgraph:config'] })
    service.refuse(undefined)
    await until(ready).toBe(200)
    expect(await status()).toMatchObject({ flows: [], unavailable: [] })
  })

  test('start when the service has them, with its prompts and no others', async () => {
    await service.put('Acme.Corp', 'prompt', {
      system: '"Be brief."',
      'template.question': template('one: {{ q }}'),
    })
    await service.put('Acme.Corp', 'processor:prompt', { Default: { topics: {}, parameters: {} } })
    await until(async () => (await status())['flows']).toEqual([
      expect.stringMatching(/^acme-corp-[0-9a-f]{8}\/default-[0-9a-f]{8}$/),
    ])
    expect(await ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: one: why?', error: null })
    expect(await ask('Acme.Corp', 'Default', 'extract-definitions')).toMatchObject({
      error: { message: expect.stringContaining('there is no prompt') },
    })
  })

  test('take a changed prompt over, and refuse an invalid one while the last stays in use', async () => {
    await service.put('Acme.Corp', 'prompt', { 'template.question': template('two: {{ q }}') })
    await until(() => ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: two: why?' })
    await service.put('Acme.Corp', 'prompt', { 'template.question': template('three: {% if %}') })
    await runtime.says('the change is refused; the previous version of the flow stays in use')
    expect(await ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: two: why?' })
    expect(await status()).toMatchObject({
      configurationCurrent: false,
      configurationProblem: expect.stringContaining(
        'workspace Acme.Corp, type prompt.json: template.question',
      ),
    })
    expect(await (await fetch(`${http}/metrics`)).text()).toMatch(/^graphmill_configuration_current 0$/m)
    await service.put('Acme.Corp', 'prompt', { 'template.question': template('four: {{ q }}') })
    await until(() => ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: four: why?' })
    expect(await status()).toMatchObject({ configurationCurrent: true })
  })

  test('go on while the service is unavailable, and take over what has changed meanwhile', async () => {
    service.refuse('the store is not there')
    await service.put('Acme.Corp', 'prompt', { 'template.question': template('five: {{ q }}') })
    await until(async () => (await status())['unavailable']).toEqual(['trustgraph:config'])
    expect(await ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: four: why?' })
    expect(await ready()).toBe(200)
    service.refuse(undefined)
    await until(() => ask('Acme.Corp', 'Default')).toMatchObject({ text: 'heard: five: why?' })
  })

  test('have a fault of their own when the first version is invalid, and others start', async () => {
    await service.put('bad', 'prompt', { 'template.question': 'no JSON' })
    await service.put('bad', 'processor:prompt', { f: {} })
    await service.put('new', 'prompt', { 'template.question': template('new: {{ q }}') })
    await service.put('new', 'processor:prompt', { f: {} })
    await until(async () => (await status())['failedFlows']).toMatchObject([{ flow: 'bad/f' }])
    await until(async () => (await status())['flows']).toContain('new/f')
    expect(await ask('new', 'f')).toMatchObject({ text: 'heard: new: why?' })
    await service.put('bad', 'prompt', { 'template.question': template('good: {{ q }}') })
    await until(async () => (await status())['flows']).toContain('bad/f')
  })

  test('end when the service has them no more, and the process waits for others', async () => {
    for (const workspace of ['new', 'bad']) await service.delete(workspace, 'processor:prompt', ['f'])
    await service.delete('Acme.Corp', 'processor:prompt', ['Default'])
    await until(async () => (await status())['flows']).toEqual([])
    expect(await ready()).toBe(200)
    expect((await runtime.end('SIGTERM')).code).toBe(0)
  })
})
