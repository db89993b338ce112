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

test.each(['remove', 'erase'])(
  '`%s` refuses before it asks the broker when the store would keep what the document states',
  async (command) => {
    const store = ['--store', 'http://127.0.0.1:9/ds/data', '--store-protocol', 'graph-store']
    const child = startGraphmill([command, 'notes.md', '--broker', 'kafka://127.0.0.1:9', ...store])
    const { code } = await child.ended
    expect(code).not.toBe(0)
    expect(child.stderr()).toContain('store_cannot_withdraw')
  },
)
