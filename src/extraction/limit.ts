// `extract --limit`: a chunk-text that publishes only the first chunks of the whole command.
import type { chunkText } from '../../processors/chunk-text.ts'
import type { MessageOf } from '../flow/ports.ts'

type Chunker = typeof chunkText

export interface ChunkLimit {
  readonly processor: Chunker
  /** Whether no further chunk will be published. */
  readonly reached: boolean
  /** Whether a chunk was left out. */
  readonly cut: boolean
}

export function limitChunks(chunker: Chunker, limit: number): ChunkLimit {
  /** How many chunks of a document part may pass. A part that is handled again gets the same number. */
  const granted = new Map<string, number>()
  let left = limit
  let cut = false

  function grant({ documentId, payload: { part } }: MessageOf<'document'>, chunks: number): number {
    const key = `${documentId}\n${part}`
    const known = granted.get(key)
    if (known !== undefined) return known
    const pass = Math.min(left, chunks)
    granted.set(key, pass)
    left -= pass
    if (pass < chunks) cut = true
    return pass
  }

  const handle: Chunker['handle'] = async function* (message, context) {
    let pass = 0
    for await (const output of chunker.handle(message, context)) {
      if (output.to === 'progress') {
        pass = grant(message, output.payload.chunks ?? 0)
        yield { ...output, payload: { ...output.payload, chunks: pass } }
        continue
      }
      // Outputs after the last chunk that may pass are about chunks that may not.
      if (output.to === 'chunk' && pass-- === 0) return
      yield output
    }
  }

  return {
    // One document part at a time, so that the first chunks are the ones that pass.
    processor: { ...chunker, maxInFlight: 1, handle },
    get reached() {
      return left === 0
    },
    get cut() {
      return cut
    },
  }
}
