// `graphmill cache`: prints the size of the reply cache, and empties it.
import type { Command } from 'commander'
import { addOptions, configOf } from '../options.ts'
import { cacheOptions, openReplies } from '../reply-cache.ts'
import { printTable } from '../table.ts'

export function addCache(group: Command): void {
  const stats = group
    .command('stats')
    .description('print how many runs are cached, and how much space they use')
    .action(async () => {
      const config = configOf(stats)
      const cache = await openReplies(config)
      const { entries, bytes, oldest } = await cache.stats()
      const since = oldest === undefined ? null : new Date(oldest).toISOString()
      if (config.options.json) return printTable([{ folder: cache.dir, entries, bytes, oldest: since }], true)
      console.log(`folder   ${cache.dir}`)
      console.log(`entries  ${entries}`)
      console.log(`bytes    ${bytes}`)
      console.log(`oldest   ${since ?? 'none'}`)
    })
  const clear = group
    .command('clear')
    .description('delete all cached replies')
    .action(async () => {
      const cache = await openReplies(configOf(clear))
      const { entries } = await cache.stats()
      await cache.clear()
      console.log(`${entries} ${entries === 1 ? 'entry' : 'entries'} removed from ${cache.dir}`)
    })
  addOptions(stats, [...cacheOptions, 'json'])
  addOptions(clear, cacheOptions)
}
