// The offline model as a model: its thread, its replies and its refusals.
import { spawnSync } from 'node:child_process'
import { afterEach, describe, expect, it } from 'vitest'
import type { CompletionEvent, CompletionRequest } from '../../../src/llm/llm.ts'
import { createOffline } from '../../../src/llm/offline/offline.ts'

const never = new AbortController().signal
const llm = createOffline()
afterEach(() => llm.close())

function ask(
  promptId: string,
  text: unknown = 'A mill is a machine. A fantail is a small windmill.',
): CompletionRequest {
  return { messages: [{ role: 'user', content: 'ignored' }], origin: { promptId, terms: { text } } }
}

async function collect(events: AsyncIterable<CompletionEvent>) {
  const got: CompletionEvent[] = []
  for await (const event of events) got.push(event)
  return got
}

describe('the offline model', () => {
  it('writes one item a line, a delta each, then ends', async () => {
    const events = await collect(llm.stream(ask('extract-definitions'), never))
    expect(events.slice(0, -1)).toEqual([
      { type: 'delta', kind: 'content', text: '{"entity":"mill","definition":"a machine"}\n' },
      { type: 'delta', kind: 'content', text: '{"entity":"fantail","definition":"a small windmill"}\n' },
    ])
    expect(events.at(-1)).toMatchObject({
      type: 'end',
      finishReason: 'stop',
      model: 'offline',
      usage: { totalTokens: null },
    })
  })

  it('answers many calls at once', async () => {
    const texts = Array.from({ length: 20 }, (_, n) => `The town of Mill${n} is a place. `)
    const all = await Promise.all(
      texts.map((text) => collect(llm.stream(ask('extract-definitions', text), never))),
    )
    for (const [n, events] of all.entries()) expect(JSON.stringify(events)).toContain(`Mill${n}\\`)
  })

  it('refuses every other prompt', async () => {
    for (const request of [ask('extract-rows'), ask('extract-topics', 7), { messages: [] }, ask('toString')])
      await expect(collect(llm.stream(request, never))).rejects.toMatchObject({ code: 'offline_unsupported' })
  })

  it('stops waiting after an abort', async () => {
    const stopping = new AbortController()
    const reading = collect(
      llm.stream(ask('extract-topics', 'The mill turns. '.repeat(2000)), stopping.signal),
    )
    stopping.abort(new Error('enough'))
    await expect(reading).rejects.toThrow('enough')
    expect(await collect(llm.stream(ask('extract-definitions'), never))).toHaveLength(3)
  })

  it('fails its calls when it is closed, and starts again', async () => {
    const reading = collect(llm.stream(ask('extract-topics'), never))
    const refused = expect(reading).rejects.toMatchObject({ code: 'aborted' })
    await llm.close()
    await refused
    expect(await collect(llm.stream(ask('extract-definitions'), never))).toHaveLength(3)
  })

  it('keeps a process alive only during calls', () => {
    const program = `
      import { createOffline } from './src/llm/offline/offline.ts'
      const origin = { promptId: 'extract-definitions', terms: { text: 'A mill is a machine.' } }
      for await (const event of createOffline().stream({ messages: [], origin }, new AbortController().signal))
        console.log(event.type)`
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
      encoding: 'utf8',
      timeout: 20_000,
    })
    expect({ out: child.stdout, status: child.status }).toEqual({ out: 'delta\nend\n', status: 0 })
  })
})
