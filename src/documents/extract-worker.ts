// The thread in which the text of HTML and PDF is taken out. It loads only what its document needs.
import { parentPort, workerData } from 'node:worker_threads'
import { coded } from '../errors.ts'
import type { Answer, Task } from './extract.ts'

async function pagesOf({ bytes, mediaType }: Task): Promise<string[]> {
  if (mediaType === 'application/pdf') return (await import('./pdf.ts')).pdfPages(bytes)
  return [(await import('./html.ts')).htmlText(bytes)]
}

let answer: Answer
try {
  answer = { pages: await pagesOf(workerData as Task) }
} catch (thrown) {
  const { code, message } = coded(thrown)
  answer = { code, message }
}
parentPort?.postMessage(answer)
