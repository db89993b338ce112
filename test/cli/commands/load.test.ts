import { expect, test } from 'vitest'
import { startGraphmill } from '../../support/processes.ts'

test('`load` says what happens when a document is loaded again', async () => {
  const child = startGraphmill(['load', '--help'])
  expect(await child.ended).toMatchObject({ code: 0 })
  const text = child.stdout().replace(/\s+/g, ' ')
  expect(text).toContain(
    'Facts that were found before are not duplicated, but each attempt adds its own provenance',
  )
  for (const option of ['--document-timeout', '--document-memory', '--follow-links'])
    expect(text).toContain(option)
})
