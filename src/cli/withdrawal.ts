// Whether what a document states can be withdrawn: asked before anything is published, since the flow would find out too late.
import type { Config } from '../config/config.ts'
import type { OptionName } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'
import { openRemoteStore } from './stores.ts'

/** The options that say which store the flow has. They are those of `run`: set them in the environment or in the configuration file. */
export const withdrawalOptions = [
  'store',
  'store-protocol',
  'store-token',
] as const satisfies readonly OptionName[]

/** Throws `store_cannot_withdraw` when the configured store keeps what a document no longer states. */
export function requireWithdrawal({ options }: Config): void {
  if (options.store === undefined || openRemoteStore(options.store, options).support) return
  throw new GraphmillError(
    'store_cannot_withdraw',
    'With --store-protocol graph-store, what a document no longer states would stay in the store: without queries nobody can tell whether another document states it. Nothing was published.',
  )
}
