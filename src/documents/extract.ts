// Extracts the text of HTML and PDF in a child process: a broken or hostile file can neither block this process nor take its memory.
import { GraphmillError } from '../errors.ts'
import { runInSubprocess, type SubprocessLimits } from '../subprocess/subprocess.ts'
import { siblingModule } from '../workers/sibling-module.ts'

const extractedTypes = ['text/html', 'application/pdf'] as const

export type ExtractedType = (typeof extractedTypes)[number]

export interface ExtractedText {
  readonly text: string
  /** Where the pages begin in the text, in UTF-16 code units, from page 1 on. Empty when there are none. */
  readonly pages: readonly number[]
}

export interface ExtractTask {
  readonly bytes: Uint8Array
  readonly mediaType: ExtractedType
}

export interface ExtractOptions {
  /** What errors call the document. */
  readonly name: string
  readonly limits: SubprocessLimits
  readonly signal: AbortSignal
}

/**
 * Throws `document_encrypted`, `document_scanned`, `document_empty`, `document_not_utf8`, `document_broken`, and `document_too_large`
 * for a document that exceeds a limit.
 */
export async function extractText(
  task: ExtractTask,
  { name, limits, signal }: ExtractOptions,
): Promise<ExtractedText> {
  const module = siblingModule('extract-task', import.meta.url)
  const outcome = await runInSubprocess<string[]>(module, task, { limits, signal })
  switch (outcome.kind) {
    case 'value':
      return task.mediaType === 'application/pdf'
        ? joined(outcome.value)
        : { text: outcome.value.join(''), pages: [] }
    case 'exceeded':
      throw new GraphmillError('document_too_large', `${name}: ${outcome.message}`)
    case 'error': {
      const { code, message } = outcome.error
      throw new GraphmillError(code === 'unexpected' ? 'document_broken' : code, `${name}: ${message}`)
    }
    default:
      return outcome satisfies never
  }
}

const pageBreak = '\n\n'

function joined(pages: readonly string[]): ExtractedText {
  const starts: number[] = []
  let length = 0
  for (const page of pages) {
    starts.push(length)
    length += page.length + pageBreak.length
  }
  return { text: pages.join(pageBreak), pages: starts }
}
