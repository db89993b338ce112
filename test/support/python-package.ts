// A package of PyPI in a virtual environment of its own, below .cache.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

/** A program of a package's environment, such as `python`. */
export const programOf = (name: string, program: string): string => join('.cache', name, 'bin', program)

/** Installs a package where it is not; why it cannot be used, if it cannot. */
export function installPackage(name: string, module: string, requirement: string): string | undefined {
  const python = programOf(name, 'python')
  const imports = () => existsSync(python) && spawnSync(python, ['-c', `import ${module}`]).status === 0
  if (imports()) return undefined
  const venv = spawnSync('python3', ['-m', 'venv', join('.cache', name)], { timeout: 60_000 })
  if (venv.status !== 0) return 'python3 with venv is not installed'
  const pip = ['-m', 'pip', 'install', '--quiet', '--retries', '0', '--timeout', '10', requirement]
  spawnSync(python, pip, { timeout: 60_000 })
  return imports() ? undefined : `${module} could not be installed`
}
