// The cache folder of the operating system. It may be deleted at any time; work is then repeated.
import { homedir } from 'node:os'
import { join } from 'node:path'

/** graphmill's folder among the user's caches. */
export function cacheFolder(
  environment: Readonly<Record<string, string | undefined>>,
  platform = process.platform,
): string {
  const named = platform === 'win32' ? environment['LOCALAPPDATA'] : environment['XDG_CACHE_HOME']
  const usual = platform === 'darwin' ? join(homedir(), 'Library', 'Caches') : join(homedir(), '.cache')
  return join(named || usual, 'graphmill')
}
