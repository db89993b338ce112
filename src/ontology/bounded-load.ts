// Parses ontology files in a child process. A hostile file ends the child, and is reported as a problem like any other.
import type { InputFile } from '../input-file.ts'
import type { Problem } from '../prompt/catalogue/problem.ts'
import {
  defaultLimits,
  maxInputBytes,
  runInSubprocess,
  type SubprocessLimits,
} from '../subprocess/subprocess.ts'
import { siblingModule } from '../workers/sibling-module.ts'
import { type ReadOntology, readFiles, readOntology } from './load.ts'
import type { run } from './parse-task.ts'

/** As `readOntology`, but when a limit is exceeded the problem `ontology_too_large` names the file. */
export async function readOntologyBounded(
  from: readonly (string | InputFile)[],
  limits: SubprocessLimits = defaultLimits,
): Promise<ReadOntology> {
  const problems: Problem[] = []
  const files = await readFiles(from, problems, maxInputBytes(limits))
  const nothing = () => readOntology([])
  if (files.length === 0 || problems.some(({ code }) => code === 'ontology_too_large'))
    return { ...(await nothing()), problems }
  const module = siblingModule('parse-task', import.meta.url)
  const outcome = await runInSubprocess<Awaited<ReturnType<typeof run>>>(module, files, { limits })
  switch (outcome.kind) {
    case 'value': {
      const { ontology, notes, problems: found } = outcome.value
      return { loaded: { ontology, notes, files }, problems: [...problems, ...found] }
    }
    case 'exceeded': {
      const { message, at: file = files[0]!.path } = outcome
      return {
        ...(await nothing()),
        problems: [...problems, { code: 'ontology_too_large', file, message }],
      }
    }
    case 'error':
      throw outcome.error
    default:
      return outcome satisfies never
  }
}
