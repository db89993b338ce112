import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { extractDefinitions } from '../../processors/extract-definitions.ts'
import { prompt } from '../../processors/prompt.ts'
import { loadCatalogue } from '../../src/prompt/catalogue/catalogue.ts'
import { startFlow } from '../support/flow.ts'
import { scriptedLlm } from '../support/scripted-llm.ts'

test.each([
  ['text', '{"entity":"mill","definition":"a machine"}', 'in text'],
  ['json', '{"definitions":[{"entity":"mill","definition":"a machine"}]}', 'not in an array'],
])(
  'a reply of a %s prompt that is no list of items is dead, and no empty success',
  async (type, text, why) => {
    const folder = await mkdtemp(join(tmpdir(), 'graphmill-prompts-'))
    const file = join(folder, 'extract-definitions.yaml')
    await writeFile(file, `response-type: ${type}\nprompt: 'Define: {{ text }}'\n`)
    const prompts = await loadCatalogue([file])
    const flow = await startFlow([prompt, extractDefinitions], { llm: scriptedLlm([text]), prompts })
    try {
      const chunk = { part: 0, index: 0, offset: 0, length: 4, text: 'mill' }
      await flow.send('chunk', chunk)
      const [entry] = await flow.first(flow.topic('progress'), 1)
      expect(entry!.payload).toMatchObject({
        kind: 'dead',
        unit: 'extract-definitions',
        error: { type: 'reply_unfit', message: expect.stringContaining(why) },
      })
    } finally {
      await flow.stop()
      await rm(folder, { recursive: true })
    }
  },
)
