import { expect, test } from 'vitest'
import { startGraphmill } from '../../support/processes.ts'

test('`load` says what happens when a document is loaded again', async () => {
  const child = startGraphmill(['load', '--help'])
  expect(await child.ended).toMatchObject({ code: 0 })
  const text = child.stdout().replace(/\s+/g, ' ')
  expect(text).toContain(
    'only the chunks whose text is new are extracted, and when all are done, the new version replaces the one before',
  )
  for (const option of ['--document-timeout', '--document-memory', '--follow-links', '--base', '--id'])
    expect(text).toContain(option)
})
