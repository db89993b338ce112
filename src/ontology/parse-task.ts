// The task of the child process that parses ontologies.
import type { InputFile } from '../input-file.ts'
import { parseFiles, type ReadOntology } from './load.ts'

export async function run(
  files: readonly InputFile[],
  at: (place: string) => void,
): Promise<Pick<ReadOntology, 'problems'> & Omit<ReadOntology['loaded'], 'files'>> {
  const { loaded, problems } = await parseFiles(files, [], at)
  return { ontology: loaded.ontology, notes: loaded.notes, problems }
}
