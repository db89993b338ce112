// A document is erased on a real broker: a word that stood only in it is nowhere afterwards.
import { join } from 'node:path'
import { expect } from 'vitest'
import { deadTopic } from '../../src/broker/topics.ts'
import { replayGroup } from '../../src/flow/unsettled-letters.ts'
import { startErasing } from '../support/erasing.ts'
import type { Site } from './execution.ts'

export async function eraseEverywhere({ connect }: Site, folder: string): Promise<void> {
  const broker = await connect()
  const erasing = await startErasing(broker, join(folder, 'replies'))
  try {
    for (const id of ['hr/42', 'hr/43', 'mill'] as const) await erasing.load(id, 1)
    await erasing.settled()
    expect(await erasing.found()).toHaveLength(12)
    expect(await erasing.erase()).toMatchObject({ complete: true, waiting: [], readers: [] })
    await erasing.settled()
    await expect.poll(() => erasing.found()).toEqual([])
    const letters = deadTopic(erasing.flow.topic('chunk'))
    expect((await broker.lag(replayGroup(letters, 'gm'), letters)).total).toBe(1)
    // The flow goes on: the same document may come again.
    await erasing.load('hr/42', Date.now())
    await erasing.settled()
    expect(await erasing.found()).toContain(erasing.flow.topic('definitions'))
  } finally {
    await erasing.stop()
    await broker.close()
  }
}
