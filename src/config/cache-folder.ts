// Where a system wants its users' caches: the folder that may be deleted at any time, at the price of work done again.
import { homedir } from 'node:os'
import { join } from 'node:path'

/** graphmill's folder among the caches of the user. */
export function cacheFolder(
  environment: Readonly<Record<string, string | undefined>>,
  platform = process.platform,
): string {
  const named = platform === 'win32' ? environment['LOCALAPPDATA'] : environment['XDG_CACHE_HOME']
  const usual = platform === 'darwin' ? join(homedir(), 'Library', 'Caches') : join(homedir(), '.cache')
  return join(named || usual, 'graphmill')
}
