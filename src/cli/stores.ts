// Where a command writes its triples: to the SPARQL store if one is configured, else to files or standard output.
import { extname } from 'node:path'
import type { Config } from '../config/config.ts'
import { type OptionName, optionTable } from '../config/options.ts'
import { GraphmillError } from '../errors.ts'
import { openFolderStore } from '../rdf/folder-store.ts'
import { openSparqlStore } from '../rdf/sparql-store.ts'
import { formatExtensions, openFileStore, openStreamStore, type TripleStore } from '../rdf/store.ts'
import { type GraphFormat, graphFormats } from '../rdf/write.ts'

export const storeOptions = [
  'format',
  'out',
  'rdf-star',
  'store',
  'store-protocol',
  'store-token',
] as const satisfies readonly OptionName[]

type Format = Config['options']['format']

const isGraphFormat = (format: Format): format is GraphFormat =>
  (graphFormats as readonly Format[]).includes(format)

/** For a one-shot command: the store, the files `out`, or standard output. */
export async function openOutput(config: Config): Promise<TripleStore> {
  const { options } = config
  if (options.store !== undefined) return openRemoteStore(options.store, options)
  const files = options.out ?? []
  if (files.length === 0) return openFile(undefined, config)
  const stores: TripleStore[] = []
  for (const path of files) stores.push(await openFile(path, config))
  return stores.length === 1 ? stores[0]! : all(stores)
}

async function openFile(path: string | undefined, config: Config): Promise<TripleStore> {
  const format = formatOf(path, config)
  if (isGraphFormat(format)) return (await import('../rdf/graph-store.ts')).openGraphStore(path, format)
  const how = { format, rdfStar: config.options['rdf-star'] }
  return path === undefined ? openStreamStore(process.stdout, how) : openFileStore(path, how)
}

/** `--format` if it is given, else the format of the file's extension. */
export function formatOf(path: string | undefined, { options, origins }: Config): Format {
  if (path === undefined || origins.format !== 'default') return options.format
  const extension = extname(path).slice(1).toLowerCase()
  const known = Object.entries(formatExtensions).find(([, each]) => each === extension)
  return (
    (known?.[0] as Format | undefined) ?? graphFormats.find((each) => each === extension) ?? options.format
  )
}

/** Whether the graph is written as an HTML page. */
export function writesPage(config: Config): boolean {
  const { store, out = [] } = config.options
  const files = out.length === 0 ? [undefined] : out
  return store === undefined && files.some((path) => formatOf(path, config) === 'html')
}

/** Each batch goes to every store. */
function all(stores: readonly TripleStore[]): TripleStore {
  return {
    async write(...batch) {
      for (const store of stores) await store.write(...batch)
    },
    async close() {
      // Those after a store that fails are written, too.
      const closed: PromiseSettledResult<void>[] = []
      for (const store of stores) closed.push(...(await Promise.allSettled([store.close()])))
      for (const each of closed) if (each.status === 'rejected') throw each.reason
    },
  }
}

/** For `run`: the store, or files in the folder `out`. */
export function openStore({ options }: Config): TripleStore {
  if (options.store !== undefined) return openRemoteStore(options.store, options)
  const { format } = options
  if (isGraphFormat(format))
    throw new GraphmillError(
      'usage',
      `--format ${format}: it is made of a whole graph, and a flow never ends. \`graphmill extract\` writes it.`,
    )
  return openFolderStore(outFolder(options) ?? optionTable.out.defaults.run, {
    format,
    rdfStar: options['rdf-star'],
  })
}

/** `--out` of a command that writes to one folder: the last one counts. */
export function outFolder({ out = [] }: Pick<Config['options'], 'out'>): string | undefined {
  return out.at(-1)
}

/** The store at `url`. `timeoutMs` limits a request; default one minute. */
export function openRemoteStore(url: string, options: Config['options'], timeoutMs?: number): TripleStore {
  const { 'store-protocol': protocol, 'store-token': token } = options
  return openSparqlStore({ url, protocol, token, ...(timeoutMs !== undefined && { timeoutMs }) })
}
