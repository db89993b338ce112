// Files named on the command line that are not documents.
import { readFile } from 'node:fs/promises'
import { GraphmillError } from '../errors.ts'

/** The text of the file. Throws `configuration_invalid` if it can't be read. */
export async function readNamed(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8')
  } catch (cause) {
    throw new GraphmillError('configuration_invalid', `${path}: ${(cause as Error).message}.`, { cause })
  }
}
