// The real TrustGraph 2.11.1 on a real Kafka, alone and with graphmill in the place of some of its processors.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectKafka } from '../../src/broker/kafka/kafka.ts'
import { brokerSource } from '../support/brokers.ts'
import { classes, extractorIds, ourExtractors } from '../support/trustgraph/blueprint.ts'
import { replies } from '../support/trustgraph/content.ts'
import type { Stored } from '../support/trustgraph/host.ts'
import { installTrustGraph } from '../support/trustgraph/installation.ts'
import { startTrustGraphSite, type TrustGraphSite } from '../support/trustgraph/site.ts'
import { byOurRules, contained, facts, rowsOf } from '../support/trustgraph/triples.ts'

const what = 'TrustGraph itself'
const present = (await brokerSource(what, ['jars'])) !== undefined
const python = present ? await installTrustGraph(what) : undefined

describe.skipIf(python === undefined)('TrustGraph', { timeout: 120_000 }, () => {
  let site: TrustGraphSite
  /** What TrustGraph's own processors make of the text. */
  let alone: readonly Stored[]

  beforeAll(async () => {
    site = await startTrustGraphSite(python!)
    alone = await site.extracted('alone')
  }, 300_000)
  afterAll(() => site?.stop())

  test('alone: the facts of its five extractors reach its stores', () => {
    expect(facts(alone)).toContain(
      'http://trustgraph.ai/e/albion http://trustgraph.ai/e/built-by http://trustgraph.ai/e/rennie',
    )
    expect(contained(alone).length).toBeGreaterThan(10)
    expect(rowsOf(alone)).toEqual([{ name: 'albion', built: '1786' }])
  })

  test('its extractors get the same from our prompt service', async () => {
    const stored = await site.extracted('our-prompt', {
      least: facts(alone).length,
      without: ['prompt'],
      ours: ['prompt'],
    })
    expect(facts(stored)).toEqual(facts(alone))
    expect(contained(stored)).toEqual(contained(alone))
    expect(rowsOf(stored)).toEqual(rowsOf(alone))
  })

  test('its prompt service gets the same from our text-completion service', async () => {
    const stored = await site.extracted('our-completion', {
      least: facts(alone).length,
      without: ['text-completion'],
      ours: ['text-completion'],
    })
    expect(facts(stored)).toEqual(facts(alone))
    expect(rowsOf(stored)).toEqual(rowsOf(alone))
  })

  test('our prompt service gets the same from its text-completion service', async () => {
    const service = { llm: 'text-service', model: undefined }
    const stored = await site.extracted('their-completion', {
      least: facts(alone).length,
      without: ['prompt'],
      ours: ['prompt'],
      rest: service,
    })
    expect(facts(stored)).toEqual(facts(alone))
    expect(rowsOf(stored)).toEqual(rowsOf(alone))
  })

  test('our extractors make the same of its chunks, with our prompt service', async () => {
    const stored = await site.extracted('our-extractors', {
      least: byOurRules(facts(alone)).length,
      without: [...extractorIds, 'prompt'],
      ours: [...ourExtractors, 'prompt'],
    })
    expect(facts(stored)).toEqual(byOurRules(facts(alone)))
    expect(rowsOf(stored)).toEqual(rowsOf(alone))
  })

  test('our extractors make the same of its chunks, with its prompt service', async () => {
    const stored = await site.extracted('their-prompt', {
      least: byOurRules(facts(alone)).length,
      without: extractorIds,
      ours: ourExtractors,
    })
    expect(facts(stored)).toEqual(byOurRules(facts(alone)))
    expect(rowsOf(stored)).toEqual(rowsOf(alone))
  })

  test('our prompt service follows its configuration service: flows and prompts come, change and go', async () => {
    const flow = { workspace: 'Followed.Ws', flow: 'F' }
    const { order } = site.trustGraph
    await site.addWorkspace(flow.workspace)
    await site.startFlow(flow, ['prompt'])
    const child = await site.startGraphmill(flow, ['prompt'], {
      ...{ prompts: [], schemas: [], ontologies: [] },
      trustgraph: { ...flow, follow: true, processors: { prompt: 'our-prompt' } },
    })
    const put = (type: string, key: string, value: unknown) =>
      order('config', { workspace: flow.workspace, values: [[type, key, JSON.stringify(value)]] })
    const [request, response] = ['request:tg:prompt:Followed.Ws:F', 'response:tg:prompt:Followed.Ws:F']
    await order('positions', { groups: [['our-prompt--Followed.Ws--F--request', request]] })
    await put('processor:our-prompt', flow.flow, { topics: { request, response }, parameters: {} })
    await child.says('"flow runs"')
    expect(await site.ask(flow, 'words')).toMatchObject({ text: 'One mill.' })
    await put('prompt', 'template.words', { prompt: 'Kind: json.' })
    await expect
      .poll(() => site.ask(flow, 'words'), { timeout: 30_000 })
      .toMatchObject({ text: replies['json'] })
    await order('unset', { workspace: flow.workspace, keys: [['processor:our-prompt', flow.flow]] })
    await child.says('"flow has ended"')
    await site.stopFlow(flow)
  })

  describe('its PromptClient gets from our prompt service', () => {
    const flow = { workspace: 'default', flow: 'client' }
    beforeAll(async () => {
      await site.startFlow(flow, ['prompt'])
      await site.startGraphmill(flow, ['prompt'])
    }, 60_000)

    test('a text, a value, a list, and an empty list', async () => {
      const asked = (prompt: string) => site.ask(flow, prompt)
      expect(await asked('words')).toMatchObject({ response_type: 'text', text: 'One mill.' })
      expect(await asked('value')).toMatchObject({
        response_type: 'json',
        object: { mills: 1, names: ['albion'] },
      })
      expect(await asked('extract-rows')).toMatchObject({
        ...{ response_type: 'jsonl', objects: [{ name: 'albion', built: 1786 }], model: 'test-model' },
        ...{ in_token: expect.any(Number), out_token: expect.any(Number) },
      })
      expect(await asked('no-lines')).toMatchObject({ response_type: 'jsonl', objects: [] })
      expect(await asked('no-words')).toMatchObject({ object: '' })
    })

    test('streamed texts, of which the parts are the whole', async () => {
      for (const [prompt, whole] of [
        ['words', 'One mill.'],
        ['extract-relationships', replies['relationships']!],
      ] as const) {
        const { parts } = await site.ask(flow, prompt, { streaming: true })
        expect(
          parts
            .map(([text]) => text)
            .join('')
            .trim(),
        ).toBe(whole.trim())
        expect(parts.filter(([, last]) => last)).toHaveLength(1)
        expect(parts.at(-1)![1]).toBe(true)
      }
    })

    test('an error for an unknown prompt and for a model that fails, streamed or not', async () => {
      for (const streaming of [false, true]) {
        await expect(site.ask(flow, 'unheard-of', { streaming })).rejects.toThrow('prompt_unknown')
        await expect(site.ask(flow, 'failing', { streaming })).rejects.toThrow(/RuntimeError: llm_\w+: /)
      }
    })

    test('nothing for what is no JSON, which is dead-lettered beside its topic, and then its answers again', async () => {
      const broker = await connectKafka({ brokers: [site.broker.settings['kafka_bootstrap_servers']!] })
      const topic = 'tg.request.prompt.default.client'
      const bytes = Buffer.from('{"id": "extract-definitions", "ter')
      await broker.publish({ topic, key: '', value: bytes, headers: { id: 'call-1' }, anySize: true })
      expect(await site.ask(flow, 'words')).toMatchObject({ text: 'One mill.' })
      const signal = AbortSignal.timeout(30_000)
      for await (const letter of broker.read(
        { topic: `${topic}.dead`, from: 'earliest', until: 'never' },
        signal,
      )) {
        if (letter.headers['id'] !== 'call-1') continue
        expect(Buffer.from(letter.value)).toEqual(bytes)
        expect(letter.headers['dead-code']).toBe('bytes_undecodable')
        break
      }
      await broker.close()
    })
  })

  describe('our processors', () => {
    const definitions = ['extract-definitions', 'prompt', 'emit-triples']
    const without = [...extractorIds, 'prompt'] as const
    const written = (stored: readonly Stored[]) =>
      new Set(stored.flatMap(({ event, message }) => (event === 'triples' ? [message.metadata.id] : [])))

    test('killed in mid-run lose nothing', async () => {
      const flow = { workspace: 'default', flow: 'killed' }
      await site.startFlow(flow, without)
      const child = await site.startGraphmill(flow, definitions)
      site.llm.set({ latencyMs: 300 })
      const ids = Array.from({ length: 60 }, (_, n) => `urn:chunk:killed-${n}`)
      await Promise.all(ids.map((id) => site.sendChunk(flow, id)))
      await site.storedOf('urn:chunk:killed', (all) => written(all).size > 0)
      await child.end('SIGKILL')
      expect(written(site.trustGraph.stored).size).toBeLessThan(ids.length)
      await site.startGraphmill(flow, definitions)
      const stored = await site.storedOf('urn:chunk:killed', (all) => written(all).size === ids.length)
      site.llm.set({ latencyMs: 0 })
      expect([...written(stored)].sort()).toEqual(ids.sort())
    })

    test('serve workspaces and flows with capitals and dots, and chunks of 5 MiB', async () => {
      const flow = { workspace: 'Acme.Corp', flow: 'Papers.V2' }
      await site.addWorkspace(flow.workspace)
      await site.startFlow(flow, without)
      await site.startGraphmill(flow, definitions)
      await site.sendChunk(flow, 'urn:chunk:large', 'The albion mill. '.repeat((5 * 1024 * 1024) / 17))
      const stored = await site.storedOf('urn:chunk:large', (all) => written(all).size > 0)
      expect(stored[0]!.workspace).toBe('Acme.Corp')
      expect(facts(stored)).toContain(
        'http://trustgraph.ai/e/mill http://www.w3.org/2000/01/rdf-schema#label "mill"',
      )
    })

    test('go on when TrustGraph stops their flow, which deletes its topics, and starts it again', async () => {
      const flow = { workspace: 'default', flow: 'restarted' }
      await site.startFlow(flow, without)
      const first = await site.startGraphmill(flow, definitions)
      // Its only flow has no topics for a while. A process that has looked in that time ends with 1, and is started again as in a cluster.
      let isOver = false
      const restarted = first.ended.then(async ({ code }) => {
        if (isOver) return
        expect(code).toBe(1)
        await site.startGraphmill(flow, definitions)
      })
      await site.sendChunk(flow, 'urn:chunk:before')
      await site.storedOf('urn:chunk:before', (all) => all.some(({ event }) => event === 'graph-embeddings'))
      await site.stopFlow(flow)
      await site.startFlow(flow, without)
      await site.sendChunk(flow, 'urn:chunk:after')
      const stored = await site.storedOf('urn:chunk:after', (all) => written(all).size > 0)
      expect(facts(stored)).toContain(
        'http://trustgraph.ai/e/mill http://www.w3.org/2000/01/rdf-schema#label "mill"',
      )
      isOver = true
      await first.end('SIGTERM')
      await restarted
    })

    test('take over a processor in a running flow, and give it back', async () => {
      const { order } = site.trustGraph
      const flow = { workspace: 'default', flow: 'moved' }
      const asked = () => site.ask(flow, 'words')
      await site.startFlow(flow)
      expect(await asked()).toMatchObject({ text: 'One mill.' })
      await order('stop', { id: 'prompt' })
      const child = await site.startGraphmill(flow, ['prompt'])
      expect(await asked()).toMatchObject({ text: 'One mill.' })
      await child.end('SIGTERM')
      await order('start', { kind: classes.prompt, id: 'prompt' })
      await order('until_flow', { id: 'prompt', ...flow })
      expect(await asked()).toMatchObject({ text: 'One mill.' })
    })
  })
})
