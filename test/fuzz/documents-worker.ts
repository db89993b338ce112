// The thread in which the target `documents` reads: as the product's child process does, but for one input after the other.
import { parentPort } from 'node:worker_threads'
import { run as extract } from '../../src/documents/extract-task.ts'
import { toGraphmillError } from '../../src/errors.ts'
import { parseFiles } from '../../src/ontology/load.ts'
import type { DocumentInput, Reading } from './documents.ts'

parentPort!.on('message', async ({ kind, bytes }: DocumentInput) => {
  let reading: Reading
  try {
    if (kind === 'text/html' || kind === 'application/pdf') {
      reading = { pages: await extract({ bytes, mediaType: kind }) }
    } else {
      const { problems } = await parseFiles([{ path: `input.${kind}`, bytes }], [])
      reading = { pages: [], code: problems[0]?.code }
    }
  } catch (thrown) {
    const { code, message } = toGraphmillError(thrown)
    reading = { code, message: thrown instanceof Error && code === 'unexpected' ? thrown.stack : message }
  }
  parentPort!.postMessage(reading)
})
