import { writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { openRestartingService } from '../../src/ontology/restarting-service.ts'
import { type OntologyWorker, openOntologyWorker } from '../../src/ontology/worker-client.ts'
import { file, turtle } from './support/files.ts'

/** A service on a file, and its threads in the order in which they start; the first `dying` ones die when they are asked for a selection. */
async function open({ dying = 0 } = {}) {
  const path = file('e.ttl', turtle('e:Mill a owl:Class .'))
  const threads: OntologyWorker[] = []
  const service = await openRestartingService({ paths: [path], budget: 2000 }, async (options) => {
    const thread = await openOntologyWorker(options)
    threads.push(thread)
    if (threads.length > dying) return thread
    // It ends after the service has chosen it, and before it can answer.
    const select: OntologyWorker['select'] = async (text) => {
      await thread.close()
      return thread.select(text)
    }
    return { ...thread, select }
  })
  onTestFinished(() => service.close())
  return { service, path, threads }
}

test('a dead thread is replaced, once for all questions, with the same version even when the files have changed', async () => {
  const { service, path, threads } = await open()
  writeFileSync(path, 'broken')
  await threads[0]!.close()
  const answers = await Promise.all([service.select('a'), service.select('b'), service.triples(0)])
  expect(answers[0].classes).toHaveProperty('Mill')
  expect(answers[1]).toEqual(answers[0])
  expect(threads.map(({ summary }) => summary)).toEqual([service.summary, service.summary])
})

test('a question whose thread dies is asked once more', async () => {
  const { service, threads } = await open({ dying: 1 })
  expect((await service.select('a')).classes).toHaveProperty('Mill')
  expect(threads).toHaveLength(2)
})

test('a question for which two threads die is refused, and the next one is answered', async () => {
  const { service, threads } = await open({ dying: 2 })
  await expect(service.select('a')).rejects.toMatchObject({
    code: 'unexpected',
    message: expect.stringContaining('died twice'),
  })
  expect((await service.select('b')).classes).toHaveProperty('Mill')
  expect(threads).toHaveLength(3)
})

test('a closed service starts no thread', async () => {
  const { service, threads } = await open()
  await service.close()
  await expect(service.select('a')).rejects.toMatchObject({ code: 'aborted' })
  expect(threads).toHaveLength(1)
})
