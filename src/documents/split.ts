// A part of a document is split into chunks as TrustGraph splits them (LangChain's recursive splitter), each with the offset
// at which it stands. Long texts are split in a worker thread: nothing may keep the loop busy.
import { Worker } from 'node:worker_threads'
import { RecursiveCharacterTextSplitter } from '@langchain/textsplitters'

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

/** As `splitText`; long texts in a worker thread. */
export async function splitAside(
  text: string,
  options: SplitOptions,
  signal: AbortSignal,
): Promise<TextChunk[]> {
  if (text.length <= longText) return splitText(text, options)
  const file = new URL(`./split-worker${import.meta.url.endsWith('.ts') ? '.ts' : '.js'}`, import.meta.url)
  const worker = new Worker(file, { workerData: { text, options } })
  const stop = () => void worker.terminate()
  signal.addEventListener('abort', stop)
  try {
    return await new Promise<TextChunk[]>((resolve, reject) => {
      worker.once('message', resolve)
      worker.once('error', reject)
      worker.once('exit', () => reject(signal.reason ?? new Error('the splitting worker ended early')))
    })
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}
