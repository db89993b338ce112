import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { openRestartingService } from '../../src/ontology/restarting-service.ts'
import { type OntologyWorker, openOntologyWorker } from '../../src/ontology/worker-client.ts'
import { file, turtle } from './support/files.ts'

/** A desk on a file, its threads as they are opened, and how many of them die as soon as they are asked for a selection. */
async function open({ dying = 0 } = {}) {
  const path = file('e.ttl', turtle('e:Mill a owl:Class .'))
  const threads: OntologyWorker[] = []
  const service = await openRestartingService({ paths: [path], budget: 2000 }, async (options) => {
    const thread = await openOntologyWorker(options)
    threads.push(thread)
    if (threads.length > dying) return thread
    // It ends after the desk has chosen it, and before it can answer.
    const select: OntologyWorker['select'] = async (text) => {
      await thread.close()
      return thread.select(text)
    }
    return { ...thread, select }
  })
  onTestFinished(() => service.close())
  return { service, path, threads }
}

test('a thread that died is followed by another, for all who ask, of the same version whatever became of the files', async () => {
  const { service, path, threads } = await open()
  writeFileSync(path, 'broken')
  await threads[0]!.close()
  const answers = await Promise.all([service.select('a'), service.select('b'), service.triples(0)])
  expect(answers[0].classes).toHaveProperty('Mill')
  expect(answers[1]).toEqual(answers[0])
  expect(threads.map(({ summary }) => summary)).toEqual([service.summary, service.summary])
})

test('a question under which its thread dies is asked once more', async () => {
  const { service, threads } = await open({ dying: 1 })
  expect((await service.select('a')).classes).toHaveProperty('Mill')
  expect(threads).toHaveLength(2)
})

test('a question under which two threads die is refused, and the next is answered', async () => {
  const { service, threads } = await open({ dying: 2 })
  await expect(service.select('a')).rejects.toMatchObject({
    code: 'unexpected',
    message: expect.stringContaining('died twice'),
  })
  expect((await service.select('b')).classes).toHaveProperty('Mill')
  expect(threads).toHaveLength(3)
})

test('a desk that was closed opens no thread', async () => {
  const { service, threads } = await open()
  await service.close()
  await expect(service.select('a')).rejects.toMatchObject({ code: 'aborted' })
  expect(threads).toHaveLength(1)
})
