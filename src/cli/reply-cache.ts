// The cache of model replies, and the limits of a prompt's run, by the configuration.
import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import type { ReplyCache } from '../llm/cache/reply-cache.ts'
import type { Llm } from '../llm/llm.ts'
import type { RunLimits } from '../prompt/engine/reply.ts'

export const cacheOptions = ['cache-dir', 'cache-size', 'cache-days'] as const

export const replyOptions = [...cacheOptions, 'no-cache', 'max-continuations', 'max-calls'] as const

/** The cache in its folder, which is shared by all processes of a machine, or by pods with a shared volume. */
export async function openReplies(
  { cacheDir, options }: Config,
  onFailure?: (error: unknown) => void,
): Promise<ReplyCache & { readonly dir: string }> {
  const { openCache } = await import('../llm/cache/reply-cache.ts')
  const dir = join(cacheDir, 'replies')
  const limits = { maxBytes: options['cache-size'] * mebibyte, maxAgeMs: options['cache-days'] * day }
  return { ...openCache({ dir, ...limits, ...(onFailure && { onFailure }) }), dir }
}

const mebibyte = 1024 ** 2
const day = 24 * 3600 * 1000

/** Opens each cache folder once, so that equal requests of this process find each other. `onFailure` is called if a folder cannot be used. */
export function createCacheOpener(
  onFailure: (cacheDir: string, error: unknown) => void,
): (config: Config, llm: Llm) => Promise<ReplyCache | undefined> {
  const opened = new Map<string, Promise<ReplyCache>>()
  return async (config, llm) => {
    // A model in this process costs nothing, and its rules change from version to version.
    if (config.options['no-cache'] || llm.isLocal) return undefined
    const { cacheDir } = config
    const cache = opened.get(cacheDir) ?? openReplies(config, (error) => onFailure(cacheDir, error))
    opened.set(cacheDir, cache)
    return cache
  }
}

export function limitsOf({ options }: Config): RunLimits {
  return { maxContinuations: options['max-continuations'], maxCalls: options['max-calls'] }
}
