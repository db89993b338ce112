// The files that a folder or a pattern names. Files that are not read are listed with the reason: other extensions, special files (their
// reader might wait for ever), links that lead out of the folder. Links that form a cycle are harmless: every folder is read once.
import { type Dirent, readdir as readdirOf, type realpath as realpathOf, type Stats } from 'node:fs'
import { readdir, realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { callbackify } from 'node:util'
import { glob } from 'tinyglobby'

export interface SkippedFile {
  readonly path: string
  /** `ending`: no text, Markdown, HTML or PDF file; `outside`: a link that leads out of the folder. */
  readonly why: 'ending' | 'outside' | 'pipe' | 'socket' | 'device'
}

export interface FoundFiles {
  /** In the order of their names. */
  readonly files: readonly string[]
  readonly skipped: readonly SkippedFile[]
}

/**
 * The files of a folder and its subfolders. A folder that cannot be read is among `files`, so that reading it fails as a document of its
 * own. `isMeant` says by the path whether a file is to be read.
 */
export async function filesIn(
  folder: string,
  { followLinks, isMeant }: { readonly followLinks: boolean; isMeant(path: string): boolean },
): Promise<FoundFiles> {
  const root = await realpath(folder)
  const files: string[] = []
  const skipped: SkippedFile[] = []
  const seen = new Set<string>()
  /** Links to folders are followed after the folders, so that a file that both lead to keeps its own name. */
  const links: string[] = []

  async function walk(at: string): Promise<void> {
    const place = await realpath(at)
    if (seen.has(place)) return
    seen.add(place)
    for (const entry of await readdir(at, { withFileTypes: true })) {
      const path = join(at, entry.name)
      await (entry.isSymbolicLink() ? follow(path) : take(path, entry)).catch(() => files.push(path))
    }
  }

  async function follow(path: string): Promise<void> {
    const target = await realpath(path).catch(() => undefined)
    // A broken link is a document that cannot be read, if its name is that of a document.
    if (target === undefined) {
      if (isMeant(path)) files.push(path)
    } else if (!followLinks && !isWithin(root, target)) skipped.push({ path, why: 'outside' })
    else {
      const found = await stat(target)
      if (!found.isDirectory()) await take(path, found)
      else if (followLinks) links.push(path)
    }
  }

  async function take(path: string, found: FileKind): Promise<void> {
    if (found.isDirectory()) return walk(path)
    const why = specialKind(found) ?? (isMeant(path) ? undefined : 'ending')
    if (why === undefined) files.push(path)
    else skipped.push({ path, why })
  }

  await walk(folder).catch(() => files.push(folder))
  for (const link of links) await walk(link).catch(() => files.push(link))
  return { files: files.sort(), skipped }
}

/** The files that match, each once, even when several links lead to it. Other files are not listed. */
export async function filesLike(
  pattern: string,
  { followLinks }: { readonly followLinks: boolean },
): Promise<FoundFiles> {
  const { folder, rest } = partsOf(pattern)
  const root = await realpath(folder).catch(() => undefined)
  if (root === undefined) return { files: [], skipped: [] }
  const skipped: SkippedFile[] = []

  /** Folders outside are not read; files outside are skipped below, when they match. */
  async function realpathWithin(path: string): Promise<string> {
    const target = await realpath(path)
    if (followLinks || isWithin(root!, target) || !(await stat(target)).isDirectory()) return target
    // A pattern without folders would find nothing in it.
    if (rest.includes('/')) skipped.push({ path, why: 'outside' })
    throw new Error('the link is not followed')
  }

  const whySkipped = async (path: string) =>
    followLinks || isWithin(root, await realpath(path)) ? specialKind(await stat(path)) : 'outside'

  const paths = await glob([rest], {
    cwd: folder,
    absolute: true,
    onlyFiles: true,
    expandDirectories: false,
    caseSensitiveMatch: false,
    fs: {
      realpath: callbackify(realpathWithin) as typeof realpathOf,
      readdir: readdirWithSpecials as typeof readdirOf,
    },
  })
  const places = new Map<string, string>()
  for (const path of paths.sort((one, other) => one.length - other.length)) {
    const place = join(await realpath(dirname(path)), basename(path))
    if (places.has(place)) continue
    // A file that has disappeared fails as a document of its own.
    const why = await whySkipped(path).catch(() => undefined)
    if (why !== undefined) skipped.push({ path, why })
    else places.set(place, path)
  }
  return { files: [...places.values()].sort(), skipped }
}

/** The library leaves out special files. Here they match as files do, so that they can be reported. */
function readdirWithSpecials(
  path: string,
  options: { readonly withFileTypes: true },
  done: (error: Error | null, entries?: Dirent[]) => void,
): void {
  readdirOf(path, options, (error, entries) => {
    for (const entry of entries ?? []) if (specialKind(entry)) entry.isFile = () => true
    done(error, entries)
  })
}

/** The folder before the first part of a pattern that is not a plain name, and the rest of the pattern. */
function partsOf(pattern: string): { readonly folder: string; readonly rest: string } {
  const parts = pattern.split('/')
  const first = parts.findIndex((part) => /[*?[{(!]/.test(part))
  const folder = parts.slice(0, first).join('/')
  return {
    folder: resolve(folder || (pattern.startsWith('/') ? '/' : '.')),
    rest: parts.slice(first).join('/'),
  }
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path)
  return way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way)
}

type FileKind = Pick<Stats, 'isDirectory' | 'isFIFO' | 'isSocket' | 'isCharacterDevice' | 'isBlockDevice'>

/** The kind of a special file; undefined for files and folders. */
function specialKind(found: FileKind): SkippedFile['why'] | undefined {
  if (found.isFIFO()) return 'pipe'
  if (found.isSocket()) return 'socket'
  return found.isCharacterDevice() || found.isBlockDevice() ? 'device' : undefined
}
