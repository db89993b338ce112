// The real TrustGraph 2.11.1 on a real Pulsar, with graphmill in the place of some of its processors: over the binary protocol where
// its native module loads, otherwise over WebSockets. TrustGraph's own client speaks the binary protocol.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { brokerSource } from '../support/brokers.ts'
import { nativePulsar } from '../support/native-pulsar.ts'
import { classes, extractorIds, ourExtractors } from '../support/trustgraph/blueprint.ts'
import { replies } from '../support/trustgraph/content.ts'
import type { Stored } from '../support/trustgraph/host.ts'
import { installTrustGraph } from '../support/trustgraph/installation.ts'
import { startTrustGraphSite, type TrustGraphSite } from '../support/trustgraph/site.ts'
import { byOurRules, contained, facts, rowsOf } from '../support/trustgraph/triples.ts'

const what = 'TrustGraph itself on Pulsar'
const present = (await brokerSource(what, ['jars'])) !== undefined
const python = present ? await installTrustGraph(what) : undefined
const kind = present && nativePulsar(`${what}, over the binary protocol`) ? 'pulsar' : 'pulsar+ws'

describe.skipIf(python === undefined)(
  `TrustGraph on Pulsar, graphmill over ${kind}`,
  { timeout: 120_000 },
  () => {
    let site: TrustGraphSite
    /** What TrustGraph's own processors make of the text. */
    let alone: readonly Stored[]

    beforeAll(async () => {
      site = await startTrustGraphSite(python!, kind)
      alone = await site.extracted('alone')
    }, 300_000)
    afterAll(() => site?.stop())

    test('its extractors get the same from our prompt service, and its PromptClient all kinds of replies', async () => {
      const flow = { workspace: 'default', flow: 'our-prompt' }
      const least = facts(alone).length
      const stored = await site.extracted(flow.flow, { least, without: ['prompt'], ours: ['prompt'] })
      expect(facts(stored)).toEqual(facts(alone))
      expect(contained(stored)).toEqual(contained(alone))
      expect(rowsOf(stored)).toEqual(rowsOf(alone))
      const child = await site.startGraphmill(flow, ['prompt'])
      expect(await site.ask(flow, 'words')).toMatchObject({ response_type: 'text', text: 'One mill.' })
      expect(await site.ask(flow, 'value')).toMatchObject({ object: { mills: 1, names: ['albion'] } })
      expect(await site.ask(flow, 'no-lines')).toMatchObject({ response_type: 'jsonl', objects: [] })
      expect(await site.ask(flow, 'no-words')).toMatchObject({ object: '' })
      const { parts } = await site.ask(flow, 'extract-relationships', { streaming: true })
      expect(parts.map(([text]) => text).join('')).toBe(replies['relationships'])
      await expect(site.ask(flow, 'unheard-of')).rejects.toThrow('prompt_unknown')
      await expect(site.ask(flow, 'failing')).rejects.toThrow(/RuntimeError: llm_\w+: /)
      await child.end('SIGTERM')
    })

    test('our extractors make the same of its chunks, with its prompt service and our text-completion', async () => {
      const stored = await site.extracted('our-extractors', {
        least: byOurRules(facts(alone)).length,
        without: [...extractorIds, 'text-completion'],
        ours: [...ourExtractors, 'text-completion'],
      })
      expect(facts(stored)).toEqual(byOurRules(facts(alone)))
      expect(rowsOf(stored)).toEqual(rowsOf(alone))
    })

    test('our prompt service takes over in a running flow, and gives it back: each side starts before the other stops', async () => {
      const { order } = site.trustGraph
      const flow = { workspace: 'default', flow: 'moved' }
      const asked = () => site.ask(flow, 'words')
      await site.startFlow(flow)
      expect(await asked()).toMatchObject({ text: 'One mill.' })
      const child = await site.startGraphmill(flow, ['prompt'])
      await order('stop', { id: 'prompt' })
      expect(await asked()).toMatchObject({ text: 'One mill.' })
      await order('start', { kind: classes.prompt, id: 'prompt' })
      await order('until_flow', { id: 'prompt', ...flow })
      await child.end('SIGTERM')
      expect(await asked()).toMatchObject({ text: 'One mill.' })
    })

    test('our processors, killed in mid-run, lose no chunk', async () => {
      const flow = { workspace: 'Acme.Corp', flow: 'Killed.V1' }
      const processors = ['extract-definitions', 'prompt', 'emit-triples']
      const written = (stored: readonly Stored[]) =>
        new Set(stored.flatMap(({ event, message }) => (event === 'triples' ? [message.metadata.id] : [])))
      await site.addWorkspace(flow.workspace)
      await site.startFlow(flow, [...extractorIds, 'prompt'])
      // By default requests and replies are on topics that keep nothing.
      const kept = (topic: string) => ({ identifier: `flow:tg:${topic}:Acme.Corp:Killed.V1` })
      const topics = { prompt: kept('prompt-request'), 'prompt-reply': kept('prompt-response') }
      const child = await site.startGraphmill(flow, processors, { topics })
      site.llm.set({ latencyMs: 300 })
      const ids = Array.from({ length: 60 }, (_, n) => `urn:chunk:killed-${n}`)
      await Promise.all(ids.map((id) => site.sendChunk(flow, id)))
      await site.storedOf('urn:chunk:killed', (all) => written(all).size > 0)
      await child.end('SIGKILL')
      expect(written(site.trustGraph.stored).size).toBeLessThan(ids.length)
      await site.startGraphmill(flow, processors, { topics })
      const stored = await site.storedOf('urn:chunk:killed', (all) => written(all).size === ids.length)
      expect([...written(stored)].sort()).toEqual(ids.sort())
    })
  },
)
