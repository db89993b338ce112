import { expect, onTestFinished, test } from 'vitest'
import { createAnthropic } from '../../src/llm/anthropic/anthropic.ts'
import { createGemini } from '../../src/llm/gemini/gemini.ts'
import type { Llm } from '../../src/llm/llm.ts'
import { createOllama } from '../../src/llm/ollama/ollama.ts'
import { createOpenAi } from '../../src/llm/openai/openai.ts'
import { startAnthropicServer } from '../support/anthropic-server.ts'
import { startGeminiServer } from '../support/gemini-server.ts'
import { startLlmServer } from '../support/llm-server.ts'
import { startOllamaServer } from '../support/ollama-server.ts'

const models = ['large', 'small']
const key = { apiKey: 'none', model: 'small' }

const llms: Readonly<Record<string, () => Promise<{ llm: Llm; close: () => unknown }>>> = {
  async openai() {
    const server = await startLlmServer({ models })
    return { llm: createOpenAi({ ...key, baseUrl: server.url }), close: () => server.close() }
  },
  async ollama() {
    const server = await startOllamaServer({ models })
    return { llm: createOllama({ host: server.host, model: 'small' }), close: () => server.close() }
  },
  async anthropic() {
    const server = await startAnthropicServer({ models })
    return { llm: createAnthropic({ ...key, baseUrl: server.origin }), close: () => server.close() }
  },
  async gemini() {
    const server = await startGeminiServer({ models })
    return { llm: createGemini({ ...key, baseUrl: server.origin }), close: () => server.close() }
  },
}

test.each(Object.keys(llms))('%s lists the models of its server', async (provider) => {
  const { llm, close } = await llms[provider]!()
  onTestFinished(async () => void (await close()))
  expect([...(await llm.listModels!(AbortSignal.timeout(10_000)))].sort()).toEqual(models)
})
