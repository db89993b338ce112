import { expect, test, vi } from 'vitest'
import { openGraphStore } from '../../src/rdf/graph-store.ts'

test('closing fails when standard output does', async () => {
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((_, whenWritten: unknown) => {
    ;(whenWritten as (cause: Error) => void)(new Error('no space left'))
    return false
  })
  try {
    const store = openGraphStore(undefined, 'html')
    await store.write([], { workspace: 'w', flow: 'f' })
    await expect(store.close()).rejects.toMatchObject({
      code: 'store_failed',
      message: 'standard output: no space left.',
    })
  } finally {
    write.mockRestore()
  }
})
