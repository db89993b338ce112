// The version that replicas are upgraded from: taken from the history of this repository and installed once into `.cache/`.
import { execFile } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { cached, patience } from './cache.ts'

const run = promisify(execFile)
const repository = resolve(import.meta.dirname, '../..')

/** The commit that a rolling upgrade starts from. */
const commit = '8b4162f'

/** The path of the baseline's `src/cli/main.ts`, with its own dependencies installed. Needs the history of the repository. */
export async function baselineProgram(): Promise<string> {
  const folder = await cached(`graphmill-${commit}`, async (target) => {
    const archive = join(target, 'source.tar')
    await run('git', ['-C', repository, 'archive', '--output', archive, commit])
    await run('tar', ['-xf', archive, '-C', target])
    await rm(archive)
    const quiet = ['--no-audit', '--no-fund', '--loglevel=error']
    await run('npm', ['ci', '--omit=dev', ...quiet], { cwd: target, timeout: patience })
  })
  return join(folder, 'src/cli/main.ts')
}
