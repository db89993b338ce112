// The constraint of a real server, llama.cpp's: that it takes our schemas, and that cut replies keep their items.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CompletionEvent, CompletionRequest, Llm } from '../../../src/llm/llm.ts'
import { createOpenAi } from '../../../src/llm/openai/openai.ts'
import { loadCatalogue } from '../../../src/prompt/catalogue/catalogue.ts'
import { askAll, testPrompt } from '../../support/asking.ts'
import { installLlama, type LlamaServer, startLlamaServer } from '../../support/llama-server.ts'

const installation = await installLlama('the constraint of llama.cpp')
let server: LlamaServer
beforeAll(async () => {
  if (installation) server = await startLlamaServer(installation, { maxTokens: 96 })
}, 120_000)
afterAll(() => server?.close())

/** The model, and what it is asked and says. */
function heard() {
  const llm = createOpenAi({ baseUrl: server.url, model: server.model })
  const requests: CompletionRequest[] = []
  const replies: string[] = []
  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    requests.push(request)
    let text = ''
    for await (const event of llm.stream(request, signal)) {
      if (event.type === 'delta') text += event.text
      if (event.type === 'end') replies.push(text)
      yield event
    }
  }
  return { llm: { ...llm, stream } satisfies Llm, requests, replies }
}

describe.skipIf(!installation)('a jsonl prompt on llama.cpp', () => {
  it("is sent as the server's own constraint, which every reply keeps to", async () => {
    const jsonSchema = {
      type: 'object',
      required: ['kind', 'size'],
      properties: {
        kind: { enum: ['mill', 'weir'] },
        size: { type: 'integer' },
        note: { type: 'string', maxLength: 20 },
      },
    }
    const render = () => ({
      system: 'Be brief.',
      user: 'Name three mills or weirs with their sizes, as JSON.',
    })
    const prompt = testPrompt({
      jsonSchema,
      render,
      sampling: { temperature: 0, seed: 1 },
      maxContinuations: 1,
    })
    const { llm, requests, replies } = heard()
    const { items, end } = await askAll(llm, { prompt })
    expect(requests[0]!.extras).toHaveProperty('response_format')
    expect(replies[0]).toMatch(/^\s*\{\s*"items"\s*:\s*\[/)
    expect(items.length).toBeGreaterThan(0)
    expect(end.rejectedBy).toEqual({})
    for (const item of items) expect(prompt.schema!.check(item)).toBeUndefined()
  }, 120_000)

  it('is not refused for the schema of any built-in prompt', async () => {
    const catalogue = await loadCatalogue()
    const terms = { text: 'A weir is a low dam.', entities: [], schema: { name: 's', fields: [] } }
    for (const id of ['extract-definitions', 'extract-relationships', 'extract-topics', 'agent-kg-extract']) {
      const prompt = {
        ...catalogue.get(id),
        maxContinuations: 0,
        sampling: { temperature: 0, maxTokens: 24 },
      }
      const { llm, requests } = heard()
      const notes: string[] = []
      await askAll(llm, { prompt, terms, limits: { maxCalls: 1 }, onNote: (note) => notes.push(note) }).catch(
        (error: { code?: string }) => expect(error.code).toBe('item_too_long'),
      )
      expect(requests).toHaveLength(1)
      expect(requests[0]!.extras).toHaveProperty('response_format')
      expect(notes).toEqual([])
    }
  }, 240_000)
})
