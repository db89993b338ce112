// Splits a document part into chunks as TrustGraph does (LangChain's recursive splitter), each with its offset. Long texts are split in a
// worker thread, so that the event loop is never blocked.
import { RecursiveCharacterTextSplitter } from '@langchain/textsplitters'
import { siblingModule } from '../workers/sibling-module.ts'
import { startWorker } from '../workers/worker-calls.ts'

export interface SplitOptions {
  /** Characters. */
  readonly chunkSize: number
  readonly chunkOverlap: number
}

export interface TextChunk {
  /** Where the chunk begins in the text that was split, in UTF-16 code units. */
  readonly offset: number
  readonly text: string
}

/** The chunks of a text, in order; none for a text of white space. */
export async function splitText(text: string, options: SplitOptions): Promise<TextChunk[]> {
  const splitter = new RecursiveCharacterTextSplitter(options)
  const chunks: TextChunk[] = []
  let from = 0
  for (const chunk of await splitter.splitText(text)) {
    if (chunk.trim() === '') continue
    const found = text.indexOf(chunk, from)
    const offset = found < 0 ? text.indexOf(chunk) : found
    chunks.push({ offset, text: chunk })
    // The next chunk may begin in the overlap, but not before.
    from = Math.max(from, offset + chunk.length - options.chunkOverlap)
  }
  return chunks
}

/** Texts up to this many characters are split in well under 50 ms even without a single space. */
const longText = 32 * 1024

/** What the worker thread is asked. */
export interface SplitTask {
  readonly text: string
  readonly options: SplitOptions
}

/** As `splitText`, but long texts are split in a worker thread. */
export async function splitAside(
  text: string,
  options: SplitOptions,
  signal: AbortSignal,
): Promise<TextChunk[]> {
  if (text.length <= longText) return splitText(text, options)
  const worker = startWorker(siblingModule('split-worker', import.meta.url), {
    subject: 'The thread that splits texts',
  })
  try {
    return await worker.call({ text, options } satisfies SplitTask, signal)
  } finally {
    void worker.close()
  }
}
