// Reads a YAML configuration file. Errors say where the fault is and never quote the file, which may hold secrets.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { GraphmillError } from '../errors.ts'

const load = createRequire(import.meta.url)

/** The parser, which is loaded with the first file: most processes read none. */
export const yaml = () => load('yaml') as typeof import('yaml')

/** Throws `configuration_invalid`, naming the file and the place in it. */
export function readYaml(path: string): unknown {
  const { LineCounter, parseDocument } = yaml()
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new GraphmillError('configuration_invalid', `${path}: it cannot be read (${code}).`, { cause })
  }
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter, prettyErrors: false, logLevel: 'silent' })
  const [error] = document.errors
  if (error) {
    const { line, col } = lineCounter.linePos(error.pos[0])
    throw noYaml(`${path}: line ${line}, column ${col}: it is no YAML (${error.code}).`)
  }
  try {
    return document.toJS({ maxAliasCount: 100 })
  } catch {
    throw noYaml(`${path}: it is no YAML: an alias in it names nothing, or too much.`)
  }
}

const noYaml = (message: string) => new GraphmillError('configuration_invalid', message)
