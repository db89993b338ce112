// Loads row schemas from JSON or YAML files, with one schema or a map of schemas per file. Either all are loaded or none.
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { InputFile } from '../input-file.ts'
import { isObject } from '../is-object.ts'
import { type Problem, problemsError } from '../prompt/catalogue/problem.ts'
import { type KeyPath, parseSource, reporter, type Source } from '../prompt/catalogue/source.ts'
import { systemCall } from '../system-calls.ts'
import { readTable } from './definition.ts'
import { type RowSchema, rowSchema } from './row-schema.ts'

/**
 * The row schemas of `paths`, files or folders or files that were read before, in order.
 *
 * @throws GraphmillError `row_schema_invalid`, or `configuration_invalid` when a file is missing, with the place of the first problem and all
 * problems in `details.problems`
 */
export async function loadRowSchemas(paths: readonly (string | InputFile)[]): Promise<readonly RowSchema[]> {
  const { schemas, problems } = await checkRowSchemas(paths)
  const [first, ...others] = problems
  if (first !== undefined) throw problemsError([first, ...others])
  return schemas
}

/** All problems of the row schemas of `paths`, and the schemas that have none. */
export async function checkRowSchemas(
  paths: readonly (string | InputFile)[],
): Promise<{ readonly problems: readonly Problem[]; readonly schemas: readonly RowSchema[] }> {
  const problems: Problem[] = []
  const found = new Map<string, { schema: RowSchema; file: string }>()
  for (const path of paths)
    for (const { file, source } of await readSources(path, problems)) {
      for (const { name, value, at } of source ? tablesOf(source, problems) : []) {
        const report = reporter(source!, problems, code)
        const table = readTable(name, value, { at, report })
        if (table === undefined) continue
        const other = found.get(table.name)
        if (other) report(at, `there is another row schema "${table.name}" in ${other.file}`)
        else found.set(table.name, { schema: rowSchema(table), file })
      }
    }
  return { problems, schemas: [...found.values()].map(({ schema }) => schema) }
}

const code = 'row_schema_invalid'

/** The file itself, or the files of a folder in the order of their names. */
async function schemaFiles(path: string, problems: Problem[]): Promise<string[]> {
  try {
    if (!(await stat(path)).isDirectory()) return [path]
    const names = (await readdir(path)).filter((name) => /\.(ya?ml|json)$/i.test(name)).sort()
    if (names.length === 0)
      problems.push({ code, file: path, message: 'the folder holds no .yaml, .yml or .json file' })
    return names.map((name) => join(path, name))
  } catch (error) {
    problems.push(unreadable(path, error))
    return []
  }
}

async function readSources(path: string | InputFile, problems: Problem[]) {
  if (typeof path !== 'string') {
    const source = parseSource(Buffer.from(path.bytes).toString('utf8'), path.path, problems, code)
    return [{ file: path.path, source }]
  }
  const files = await schemaFiles(path, problems)
  return Promise.all(files.map(async (file) => ({ file, source: await readSource(file, problems) })))
}

async function readSource(file: string, problems: Problem[]): Promise<Source | undefined> {
  try {
    return parseSource(
      (await systemCall(`read ${file}`, readFile(file, 'utf8'))).replace(/^\uFEFF/, ''),
      file,
      problems,
      code,
    )
  } catch (error) {
    problems.push(unreadable(file, error))
    return undefined
  }
}

const unreadable = (file: string, error: unknown): Problem => ({
  code: 'configuration_invalid',
  file,
  message: `cannot be read: ${(error as Error).message}`,
})

interface Named {
  /** The key of the map; undefined for a file of one schema. */
  readonly name: string | undefined
  readonly value: unknown
  readonly at: KeyPath
}

/** The schemas of a file. An object with the key `fields` is a schema; the values of a map may be JSON texts, as in TrustGraph's configuration. */
function tablesOf(source: Source, problems: Problem[]): Named[] {
  const { value } = source
  if (!isObject(value) || Object.hasOwn(value, 'fields')) return [{ name: undefined, value, at: [] }]
  const entries = Object.entries(value)
  if (entries.length === 0) reporter(source, problems, code)([], 'holds no row schema')
  return entries.flatMap(([name, each]) => {
    if (typeof each !== 'string') return [{ name, value: each, at: [name] }]
    try {
      return [{ name, value: JSON.parse(each) as unknown, at: [name] }]
    } catch (error) {
      reporter(source, problems, code)([name], `not JSON: ${(error as Error).message}`)
      return []
    }
  })
}
