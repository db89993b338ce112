// A document is erased on a real broker, by the command: a word that stood only in it is nowhere afterwards.
import { join } from 'node:path'
import { expect } from 'vitest'
import { deadTopic } from '../../src/broker/topics.ts'
import { replayGroup } from '../../src/flow/unsettled-letters.ts'
import { startErasing } from '../support/erasing.ts'
import { startGraphmill } from '../support/processes.ts'
import type { Site } from './execution.ts'

export async function eraseEverywhere({ connect, brokerUrl }: Site, folder: string): Promise<void> {
  const broker = await connect()
  const erasing = await startErasing(broker, join(folder, 'replies'))
  const place = ['--broker', brokerUrl, '--extractors', 'definitions', '--cache-dir', join(folder, 'own')]
  const start = (...more: readonly string[]) =>
    startGraphmill(['erase', 'hr/42', '--by', 'the test', ...place, ...more])
  const erase = async (...more: readonly string[]) => {
    const child = start(...more)
    const { code } = await child.ended
    return { code, stderr: child.stderr(), said: JSON.parse(child.stdout() || '{}') }
  }
  const [triples, retractions] = ['triples', 'retractions'].map(
    (role) => `gm.store-triples.${role}.default.default`,
  )
  const all = ['--with-others', '--ignore-groups', `${triples},${retractions}`]
  try {
    for (const id of ['hr/42', 'hr/43', 'mill'] as const) await erasing.load(id, 1)
    await erasing.settled()
    expect(await erasing.found()).toHaveLength(12)
    // store-triples never ran here: nothing that it has not read is deleted.
    const stuck = await erase('--with-others', '--timeout', '0')
    expect(stuck).toMatchObject({ code: 3, said: { documents: ['hr/42'], complete: false } })
    const dying = start('--with-others')
    await dying.says(`waiting for ${triples} (no consumer runs)`)
    await dying.end('SIGKILL')
    expect(await erasing.found()).toContain(erasing.flow.topic('triples'))
    const erased = await erase(...all)
    expect(erased, erased.stderr).toMatchObject({ code: 0, said: { complete: true, waiting: [] } })
    await erasing.settled()
    await expect.poll(() => erasing.found()).toEqual([])
    const letters = deadTopic(erasing.flow.topic('chunk'))
    expect((await broker.lag(replayGroup(letters, 'gm'), letters)).total).toBe(1)
    // The flow goes on: the same document may come again.
    await erasing.load('hr/42', Date.now())
    await erasing.settled()
    expect(await erasing.found()).toContain(erasing.flow.topic('definitions'))
    const counted = await erase('--dry-run')
    expect(counted).toMatchObject({ code: 0, said: { dryRun: true } })
    expect(counted.said.topics['gm.flow.definitions.default.default']).toMatchObject({ own: 1 })
  } finally {
    await erasing.stop()
    await broker.close()
  }
}
