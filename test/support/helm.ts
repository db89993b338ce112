// Helm: the one that $HELM names, that is on the path, or that was built into the user's cache folder before; otherwise it is built
// there with Go, which takes some minutes of CPU.
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { buildHelm, helmPath } from '../../scripts/cluster-tools.js'

/** The program, or undefined where it can be neither found nor built. */
export async function findHelm(): Promise<string | undefined> {
  const named = process.env['HELM']
  if (named) return named
  if (spawnSync('helm', ['version']).status === 0) return 'helm'
  if (!existsSync(helmPath) && spawnSync('go', ['version']).status !== 0) return undefined
  await buildHelm()
  return helmPath
}
