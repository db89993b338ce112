// Finds the part of a batch that a crash leaves at the end of a file. The search begins at the end, since files are long.
import type { FileHandle } from 'node:fs/promises'
import type { TripleFormat } from './write.ts'

const firstSpan = 64 * 1024

/** The length of a file up to the end of its last whole statement, or graph of statements; 0 when there is none. */
export async function wholeLength(
  handle: FileHandle,
  format: TripleFormat,
  span: number = firstSpan,
): Promise<number> {
  const { size } = await handle.stat()
  const start = Math.max(0, size - span)
  const tail = Buffer.alloc(size - start)
  const { bytesRead } = await handle.read(tail, 0, tail.length, start)
  const end = wholeEnd(tail.subarray(0, bytesRead), format, start === 0)
  if (end !== undefined) return start + end
  return start === 0 ? 0 : wholeLength(handle, format, span * 4)
}

const newline = 10
const blank = 32

/** Undefined when the tail of the file does not show it. */
function wholeEnd(tail: Buffer, format: TripleFormat, isAll: boolean): number | undefined {
  const end = tail.lastIndexOf(newline) + 1
  if (end === 0) return undefined
  if (format === 'nquads' || format === 'jsonl') return end
  // The last line without indentation begins a statement or a graph, or ends a graph.
  let begin = end
  let line = ''
  do {
    const next = begin
    begin = next < 2 ? 0 : tail.lastIndexOf(newline, next - 2) + 1
    if (begin === 0 && !isAll) return undefined
    line = tail.toString('latin1', begin, next)
  } while (begin > 0 && tail[begin] === blank)
  if (line === '}\n') return end
  const isClosed = !line.endsWith(' {\n') && tail.subarray(end - 3, end).toString('latin1') === ' .\n'
  return isClosed ? end : begin
}
