// Loads ontology files as one ontology: Turtle, RDF/XML, JSON-LD and TrustGraph's JSON form, several at once. All problems are reported
// with file and place; when there are any, nothing is loaded. Nothing is ever fetched.
import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import type { InputFile } from '../input-file.ts'
import { type Problem, problemsError } from '../prompt/catalogue/problem.ts'
import { quote } from '../rdf/iri.ts'
import { systemCall } from '../system-calls.ts'
import { build } from './build.ts'
import { compare, createOntologyBuilder, type OntologyBuilder } from './builder.ts'
import { ontologiesOf, readTrustGraph } from './from-json.ts'
import { readRdf } from './from-rdf.ts'
import type { Ontology } from './ontology.ts'
import { parseGraph, parseJson, SyntaxFault, syntaxOf } from './parse.ts'

export interface LoadedOntology {
  readonly ontology: Ontology
  /** Notes on what was left out because extraction cannot use it, as sentences. */
  readonly notes: readonly string[]
  /** The content that was read: it makes the same ontology again, even when the files on disk have changed. */
  readonly files: readonly InputFile[]
}

/**
 * The ontology of files and folders, or of files that were read before.
 *
 * @throws GraphmillError with the first problem's code and place, all of them in `details.problems`
 */
export async function loadOntology(from: readonly (string | InputFile)[]): Promise<LoadedOntology> {
  return sound(await readOntology(from))
}

/** The ontology, if it has no problems; otherwise throws all problems as one error. */
export function sound({ loaded, problems }: ReadOntology): LoadedOntology {
  const [first, ...others] = problems
  if (first !== undefined) throw problemsError([first, ...others])
  return loaded
}

export interface ReadOntology {
  readonly loaded: LoadedOntology
  readonly problems: readonly Problem[]
}

/** All problems of the ontologies of files and folders, and the ontology that they make together. */
export async function readOntology(from: readonly (string | InputFile)[]): Promise<ReadOntology> {
  const problems: Problem[] = []
  const files = await readFiles(from, problems)
  return parseFiles(files, problems)
}

/** `onFile` is called with the path of every file before it is parsed. */
export async function parseFiles(
  files: readonly InputFile[],
  problems: Problem[],
  onFile: (path: string) => void = () => undefined,
): Promise<ReadOntology> {
  const builder = createOntologyBuilder()
  for (const file of files) {
    onFile(file.path)
    await readInto(builder, file, problems)
  }
  const { ontology, flaws } = build(builder)
  if (problems.length === 0 && ontology.classes.size === 0 && files[0] !== undefined)
    problems.push({
      code: 'ontology_invalid',
      file: files[0].path,
      message: 'it has properties but no class',
    })
  for (const { iri, ontology: id, message } of flaws)
    problems.push({ code: 'ontology_invalid', file: builder.files.get(id) ?? id, at: iri, message })
  return { loaded: { ontology, notes: builder.notes, files }, problems }
}

/** Adds unreadable files to the problems, and the first file with which there would be more than `maxBytes`. */
export async function readFiles(
  from: readonly (string | InputFile)[],
  problems: Problem[],
  maxBytes: number = Number.POSITIVE_INFINITY,
): Promise<InputFile[]> {
  const files = from.filter((each) => typeof each !== 'string')
  const paths = from.filter((each) => typeof each === 'string')
  let left = maxBytes
  for (const path of await findFiles(paths, problems))
    try {
      left -= (await stat(path)).size
      if (left < 0) {
        const message = `the ontologies have more than ${maxBytes / 1024 / 1024} MiB, a quarter of --document-memory.`
        problems.push({ code: 'ontology_too_large', file: path, message })
        return files
      }
      files.push({ path, bytes: await systemCall(`read ${path}`, readFile(path)) })
    } catch (error) {
      problems.push({ code: 'ontology_invalid', file: path, message: (error as Error).message })
    }
  return files
}

/** The files, and those of the folders in the order of their names. */
async function findFiles(paths: readonly string[], problems: Problem[]): Promise<string[]> {
  const files: string[] = []
  for (const path of paths)
    try {
      if (!(await stat(path)).isDirectory()) {
        files.push(path)
        continue
      }
      const names = (await readdir(path))
        .filter((name) => /\.(ttl|nt|n3|rdf|owl|xml|jsonld|json)$/i.test(name))
        .sort(compare)
      if (names.length === 0)
        throw new Error('the folder holds no .ttl, .nt, .rdf, .owl, .xml, .jsonld or .json file')
      // The reader of a pipe might wait for ever, and that of a device might never reach an end.
      for (const file of names.map((name) => join(path, name)))
        if (await isSpecial(file))
          problems.push({ code: 'ontology_invalid', file, message: 'it is a pipe, a socket or a device' })
        else files.push(file)
    } catch (error) {
      problems.push({
        code: 'configuration_invalid',
        file: path,
        message: `cannot be read: ${(error as Error).message}`,
      })
    }
  return [...new Set(files)]
}

async function isSpecial(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && !found.isFile() && !found.isDirectory()
}

async function readInto(
  builder: OntologyBuilder,
  { path: file, bytes }: InputFile,
  problems: Problem[],
): Promise<void> {
  const report = (message: string, more: Partial<Problem> = {}) =>
    problems.push({ code: 'ontology_invalid', file, message, ...more })
  const id = basename(file, extname(file)).replace(/\s+/g, '-')
  const before = { declarations: builder.declarations, problems: problems.length }
  try {
    const text = decodeUtf8(bytes)
    const syntax = syntaxOf(file, text)
    if (syntax === 'trustgraph') {
      const reportAt = (path: readonly string[], message: string) =>
        report(message, path.length > 0 ? { at: path.join('.') } : {})
      for (const each of ontologiesOf(parseJson(text), id, reportAt))
        if (claim(builder, each.id, file, report)) readTrustGraph(each, builder, reportAt)
    } else if (claim(builder, id, file, report)) {
      readRdf(await parseGraph(text, syntax, `https://trustgraph.ai/ontology/${quote(id)}`), id, builder)
    }
  } catch (error) {
    if (!(error instanceof SyntaxFault)) throw error
    const { line, code, message } = error
    report(message, { code, ...(line !== undefined && { line }) })
    return
  }
  if (builder.declarations === before.declarations && problems.length === before.problems)
    report('it declares no class and no property')
}

/** Registers an ontology's id. Returns whether the id was still free. */
function claim(
  builder: OntologyBuilder,
  id: string,
  file: string,
  report: (message: string) => void,
): boolean {
  const owner = builder.files.get(id)
  if (owner === undefined) {
    builder.files.set(id, file)
    return true
  }
  report(`its id ${JSON.stringify(id)} is that of ${owner} too`)
  return false
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch (cause) {
    throw new SyntaxFault('it is not UTF-8', { cause })
  }
}
