// Helm: the one that $HELM names, that is on the path, or that was built into the user's cache folder before; otherwise it is built
// there with Go, which takes some minutes of CPU.
import { execFile, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'

const version = 'v3.22.0'
const folder = join(
  process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'),
  'graphmill',
  `helm-${version}`,
)
const run = promisify(execFile)

/** The program, or undefined where it can be neither found nor built. */
export async function findHelm(): Promise<string | undefined> {
  const named = process.env['HELM']
  if (named) return named
  if (spawnSync('helm', ['version']).status === 0) return 'helm'
  const built = join(folder, 'helm')
  if (existsSync(built)) return built
  if (spawnSync('go', ['version']).status !== 0) return undefined
  mkdirSync(folder, { recursive: true })
  const env = { ...process.env, GOBIN: folder, CGO_ENABLED: '0' }
  await run('go', ['install', `helm.sh/helm/v3/cmd/helm@${version}`], { env, maxBuffer: 1 << 26 })
  return built
}
