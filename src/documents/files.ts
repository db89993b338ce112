// The files that a folder or a pattern names. Files that are not read are listed with the reason: other extensions, special files (their
// reader might wait for ever), links that lead out of the folder. Links that form a cycle are harmless: every folder is read once.
import { type Dirent, readdir as readdirOf, type realpath as realpathOf, type Stats } from 'node:fs'
import { lstat, readdir, realpath, stat } from 'node:fs/promises'
import { basename, dirname, isAbsolute, join, relative, resolve, sep } from 'node:path'
import { callbackify } from 'node:util'
import { glob } from 'tinyglobby'

/** A file of a folder or pattern that is not read. */
export interface SkippedFile {
  readonly path: string
  /** `ending`: no text, Markdown, HTML or PDF file; `outside`: a link that leads out of the folder. */
  readonly why: 'ending' | 'outside' | 'pipe' | 'socket' | 'device'
}

export interface FoundFile {
  readonly path: string
  /** In bytes; 0 when it is not known. */
  readonly size: number
}

export interface WalkOptions {
  readonly followLinks: boolean
  onSkipped(file: SkippedFile): void
}

/**
 * The files of a folder and its subfolders in the order of their paths, while the folder is read; those behind links to folders come
 * last. A folder that cannot be read is among them, so that reading it fails as a document of its own. `isMeant` says by the path
 * whether a file is to be read.
 */
export async function* filesIn(
  folder: string,
  { followLinks, onSkipped, isMeant }: WalkOptions & { isMeant(path: string): boolean },
): AsyncGenerator<FoundFile, void> {
  const root = await realpath(folder)
  const seen = new Set<string>()
  /** Links to folders are followed after the folders, so that a file that both lead to keeps its own name. */
  const links: string[] = []

  async function* walk(at: string): AsyncGenerator<FoundFile, void> {
    const names = await namesIn(at, seen).catch(() => undefined)
    if (names === undefined) yield { path: at, size: 0 }
    for (const name of names ?? []) {
      if (name.endsWith('/')) yield* walk(join(at, name.slice(0, -1)))
      else {
        const path = join(at, name)
        const file = await fileAt(path).catch(() => ({ path, size: 0 }))
        if (file) yield file
      }
    }
  }

  /** Undefined for what is not read now. */
  async function fileAt(path: string): Promise<FoundFile | undefined> {
    const found = await lstat(path)
    if (!found.isSymbolicLink()) return take(path, found)
    const target = await realpath(path).catch(() => undefined)
    // A broken link is a document that cannot be read, if its name is that of a document.
    if (target === undefined) return isMeant(path) ? { path, size: 0 } : undefined
    if (!followLinks && !isWithin(root, target)) onSkipped({ path, why: 'outside' })
    else {
      const behind = await stat(target)
      if (!behind.isDirectory()) return take(path, behind)
      if (followLinks) links.push(path)
    }
    return undefined
  }

  function take(path: string, found: Stats): FoundFile | undefined {
    const why = specialKind(found) ?? (isMeant(path) ? undefined : 'ending')
    if (why === undefined) return { path, size: found.size }
    onSkipped({ path, why })
    return undefined
  }

  yield* walk(folder)
  for (const link of links) yield* walk(link)
}

/** The names in a folder, those of subfolders with a slash, so that they sort as the paths do. None of a folder that was seen before. */
async function namesIn(folder: string, seen: Set<string>): Promise<string[]> {
  const place = await realpath(folder)
  if (seen.has(place)) return []
  seen.add(place)
  const entries = await readdir(folder, { withFileTypes: true })
  return entries.map((entry) => (entry.isDirectory() ? `${entry.name}/` : entry.name)).sort()
}

/** The files that match, each once, even when several links lead to it, in the order of their paths. Other files are not listed. */
export async function filesLike(
  pattern: string,
  { followLinks, onSkipped }: WalkOptions,
): Promise<readonly FoundFile[]> {
  const { folder, rest } = partsOf(pattern)
  const root = await realpath(folder).catch(() => undefined)
  if (root === undefined) return []

  /** Folders outside are not read; files outside are skipped below, when they match. */
  async function realpathWithin(path: string): Promise<string> {
    const target = await realpath(path)
    if (followLinks || isWithin(root!, target) || !(await stat(target)).isDirectory()) return target
    // A pattern without folders would find nothing in it.
    if (rest.includes('/')) onSkipped({ path, why: 'outside' })
    throw new Error('the link is not followed')
  }

  /** Undefined when it is skipped. */
  async function fileAt(path: string): Promise<FoundFile | undefined> {
    const isOutside = !followLinks && !isWithin(root!, await realpath(path))
    const found = await stat(path)
    const why = isOutside ? 'outside' : specialKind(found)
    if (why === undefined) return { path, size: found.size }
    onSkipped({ path, why })
    return undefined
  }

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
  const places = new Map<string, FoundFile>()
  for (const path of paths.sort((one, other) => one.length - other.length)) {
    const place = join(await realpath(dirname(path)), basename(path))
    if (places.has(place)) continue
    // A file that has disappeared fails as a document of its own.
    const file = await fileAt(path).catch(() => ({ path, size: 0 }))
    if (file) places.set(place, file)
  }
  return [...places.values()].sort((one, other) => (one.path < other.path ? -1 : 1))
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
