// The text of a prompt file, or of another file of the operator, as a value that knows the line of each key. `.json` is read as
// JSON, everything else as YAML.

import type { Node } from 'yaml'
import { yaml } from '../../config/yaml.ts'
import type { ErrorCode } from '../../errors.ts'
import type { Problem } from './problem.ts'

/** Keys and indexes from the root of a file to a value. */
export type KeyPath = readonly (string | number)[]

export interface Source {
  /** As the user named it. */
  readonly file: string
  readonly value: unknown
  /** The line of the value's key, or of the nearest key above it; undefined in JSON. */
  lineOf(path: KeyPath): number | undefined
  /** The line of the file that holds the given line of the text at `path`, as near as is known. */
  lineOfText(path: KeyPath, line: number): number | undefined
}

/** Reports a problem at a place of a file. */
export type Report = (path: KeyPath, message: string, options?: { code?: ErrorCode; line?: number }) => void

/** A report that adds to `problems`, under the code `usual` by default. */
export function reporter(
  source: Pick<Source, 'file' | 'lineOf'>,
  problems: Problem[],
  usual: ErrorCode = 'prompt_invalid',
): Report {
  return (path, message, { code = usual, line = source.lineOf(path) } = {}) => {
    const at = path
      .map((step, index) => (typeof step === 'number' ? `[${step}]` : index > 0 ? `.${step}` : step))
      .join('')
    problems.push({
      code,
      file: source.file,
      ...(line !== undefined && { line }),
      ...(at !== '' && { at }),
      message,
    })
  }
}

/** The source, or undefined when the text cannot be read, which is added to `problems` under `code`. */
export function parseSource(
  text: string,
  file: string,
  problems: Problem[],
  code: ErrorCode = 'prompt_invalid',
): Source | undefined {
  const broken: Broken = (message, line) =>
    problems.push({ code, file, ...(line !== undefined && { line }), message })
  return file.toLowerCase().endsWith('.json') ? parseJson(text, file, broken) : parseYaml(text, file, broken)
}

type Broken = (message: string, line: number | undefined) => void

function parseJson(text: string, file: string, broken: Broken): Source | undefined {
  try {
    return { file, value: JSON.parse(text), lineOf: () => undefined, lineOfText: () => undefined }
  } catch (error) {
    const line = /line (\d+)/.exec((error as Error).message)?.[1]
    broken(`not JSON: ${(error as Error).message}`, line === undefined ? undefined : Number(line))
    return undefined
  }
}

function parseYaml(text: string, file: string, broken: Broken): Source | undefined {
  const { isScalar, LineCounter, parseDocument } = yaml()
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  for (const { pos, message } of document.errors) broken(`not YAML: ${message}`, lines.linePos(pos[0]).line)
  if (document.errors.length > 0) return undefined
  const lineAt = (offset: number | undefined) =>
    offset === undefined ? undefined : lines.linePos(offset).line
  const root = document.contents as Node | null
  return {
    file,
    value: document.toJS(),
    lineOf: (path) => lineAt(locate(root, path).start),
    lineOfText: (path, line) => {
      const { start, node } = locate(root, path)
      const header = isScalar(node) && node.type?.startsWith('BLOCK') ? lineAt(node.range?.[0]) : undefined
      return header === undefined ? lineAt(start) : header + line
    },
  }
}

/** Where the last existing step of the path begins, and the node there. */
function locate(root: Node | null, path: KeyPath): { start: number | undefined; node: Node | undefined } {
  const { isCollection, isMap, isPair, isScalar } = yaml()
  let node = root ?? undefined
  let start = node?.range?.[0]
  for (const step of path) {
    if (!isCollection(node)) break
    const child = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && key.value === step)
      : node.items[Number(step)]
    if (child === undefined) break
    const key = isPair(child) ? (child.key as Node) : (child as Node)
    start = key.range?.[0] ?? start
    node = (isPair(child) ? (child.value as Node | null) : (child as Node)) ?? undefined
  }
  return { start, node }
}
