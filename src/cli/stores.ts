// Where a command writes its triples: to the SPARQL store if one is configured, else to files or standard output.
import type { Config } from '../config/config.ts'
import { type OptionName, optionTable } from '../config/options.ts'
import { openSparqlStore } from '../rdf/sparql-store.ts'
import { openFileStore, openFolderStore, openStreamStore, type TripleStore } from '../rdf/store.ts'

export const storeOptions = [
  'format',
  'out',
  'rdf-star',
  'store',
  'store-protocol',
  'store-token',
] as const satisfies readonly OptionName[]

/** For a one-shot command: the store, the file `out`, or standard output. */
export async function openOutput({ options }: Config): Promise<TripleStore> {
  const how = { format: options.format, rdfStar: options['rdf-star'] }
  if (options.store !== undefined) return openRemoteStore(options.store, options)
  return options.out ? openFileStore(options.out, how) : openStreamStore(process.stdout, how)
}

/** For `run`: the store, or files in the folder `out`. */
export function openStore({ options }: Config): TripleStore {
  if (options.store !== undefined) return openRemoteStore(options.store, options)
  return openFolderStore(options.out ?? optionTable.out.defaults.run, {
    format: options.format,
    rdfStar: options['rdf-star'],
  })
}

/** The store at `url`. `timeoutMs` limits a request; default one minute. */
export function openRemoteStore(url: string, options: Config['options'], timeoutMs?: number): TripleStore {
  const { 'store-protocol': protocol, 'store-token': token } = options
  return openSparqlStore({ url, protocol, token, ...(timeoutMs !== undefined && { timeoutMs }) })
}
