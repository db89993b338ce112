// A folder of files as the kubelet mounts a ConfigMap: each name links to `..data/name`, and `..data` to the folder of one version.
import { existsSync, mkdirSync, readlinkSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Mounts a version, or swaps the mounted one for it; neither the files nor their links are touched by a swap. */
export function mountConfigMap(
  folder: string,
  { version, files }: { readonly version: string; readonly files: Readonly<Record<string, string>> },
): void {
  const link = join(folder, '..data')
  const before = existsSync(link) ? readlinkSync(link) : undefined
  mkdirSync(join(folder, version))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, version, name), text)
  symlinkSync(version, `${link}_tmp`)
  renameSync(`${link}_tmp`, link)
  if (before) rmSync(join(folder, before), { recursive: true })
  else for (const name of Object.keys(files)) symlinkSync(join('..data', name), join(folder, name))
}
