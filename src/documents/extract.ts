// The text of HTML and PDF, taken out in a worker thread: nothing may keep the loop busy, and what a broken file does to
// the memory of the thread ends with the thread.
import { Worker } from 'node:worker_threads'
import { type ErrorCode, GraphmillError } from '../errors.ts'

export const extractedTypes = ['text/html', 'application/pdf'] as const

export type ExtractedType = (typeof extractedTypes)[number]

export interface ExtractedText {
  readonly text: string
  /** Where the pages begin in the text, in UTF-16 code units, from page 1 on. Empty where there are none. */
  readonly pages: readonly number[]
}

export interface Task {
  readonly bytes: Uint8Array
  readonly mediaType: ExtractedType
}

export type Answer =
  | { readonly pages: readonly string[] }
  | { readonly code: ErrorCode; readonly message: string }

/** Memory of the thread, in MiB: a file that needs more is taken for broken. */
const maxMemoryMb = 2048

/** Stack of the thread, in MiB: the library for HTML goes one call deeper with each tag inside another. */
const stackMb = 64

/** Throws `document_encrypted`, `document_scanned`, `document_empty`, `document_not_utf8`, `document_broken`. */
export async function extractAside(
  task: Task & { readonly name: string },
  signal: AbortSignal,
): Promise<ExtractedText> {
  const answer = await ask({ bytes: task.bytes, mediaType: task.mediaType }, signal)
  if ('code' in answer) {
    const code = answer.code === 'unexpected' ? 'document_broken' : answer.code
    throw new GraphmillError(code, `${task.name}: ${answer.message}`)
  }
  if (task.mediaType !== 'application/pdf') return { text: answer.pages.join(''), pages: [] }
  const pages: number[] = []
  let length = 0
  for (const page of answer.pages) {
    pages.push(length)
    length += page.length + pageBreak.length
  }
  return { text: answer.pages.join(pageBreak), pages }
}

const pageBreak = '\n\n'

async function ask(task: Task, signal: AbortSignal): Promise<Answer> {
  signal.throwIfAborted()
  const file = new URL(`./extract-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  const worker = new Worker(file, {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: maxMemoryMb, stackSizeMb: stackMb },
    // What the libraries print is not for our output.
    stdout: true,
    stderr: true,
  })
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  worker.once('message', resolve)
  worker.once('error', (cause) => resolve({ code: 'document_broken', message: `${cause.message}.` }))
  worker.once('exit', () => resolve({ code: 'document_broken', message: 'reading it ended early.' }))
  const stop = () => reject(signal.reason)
  signal.addEventListener('abort', stop)
  try {
    return await promise
  } finally {
    signal.removeEventListener('abort', stop)
    await worker.terminate()
  }
}
