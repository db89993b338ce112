// Which model a configuration names.
import { expect, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { openLlm } from '../../src/llm/from-config.ts'
import { startLlmServer } from '../support/llm-server.ts'

const opened = (environment: Record<string, string>) =>
  openLlm(
    readConfig({ flags: {}, environment: { GRAPHMILL_LLM: 'auto', ...environment } }),
    undefined,
    AbortSignal.timeout(60_000),
  )

test('auto is the server that is configured', async () => {
  await using server = await startLlmServer()
  const llm = await opened({ OPENAI_BASE_URL: server.url, GRAPHMILL_MODEL: 'm' })
  expect(llm).toMatchObject({ provider: 'openai', model: 'm' })
})

test('auto is offline when nothing is configured, also by variables that are set to nothing', async () => {
  for (const environment of [{}, { OPENAI_BASE_URL: '', OPENAI_API_KEY: '', GRAPHMILL_MODEL: '' }])
    expect(await opened(environment)).toMatchObject({ provider: 'offline', isLocal: true })
})

test('auto is an error when a model is named without a server, or two servers are configured', async () => {
  await expect(opened({ GRAPHMILL_MODEL: 'm' })).rejects.toMatchObject({ code: 'llm_not_configured' })
  await expect(opened({ OPENAI_API_KEY: 'k-1234567', ANTHROPIC_API_KEY: 'k-1234567' })).rejects.toMatchObject(
    {
      code: 'configuration_invalid',
    },
  )
  await expect(opened({ AZURE_OPENAI_API_KEY: 'k-1234567' })).rejects.toMatchObject({
    code: 'llm_not_configured',
  })
})

test('nothing is chosen without auto', async () => {
  await expect(opened({ GRAPHMILL_LLM: '' })).rejects.toMatchObject({ code: 'llm_not_configured' })
})
