// Loads what `graphmill run` loads for the processors named on the command line, from the build, and prints the packages, the files of
// graphmill, whether Node has loaded the client behind `fetch`, and the bytes of the heap after a collection.
import { registerHooks } from 'node:module'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const urls = []
registerHooks({
  load(url, context, next) {
    urls.push(url)
    return next(url, context)
  },
})

const names = process.argv.slice(2)
const dist = new URL('../../dist/', import.meta.url)
const load = (path) => import(new URL(path, dist).href)

await load('src/cli/commands.js')
await load('src/cli/commands/run.js')
const { loadProcessors } = await load('processors/modules.js')
const processors = await loadProcessors(names.length > 0 ? names : undefined)
const { readConfig } = await load('src/config/config.js')
const { createWiring } = await load('src/cli/wiring.js')
const { createLogger } = await load('src/observe/log.js')
const { connect } = await load('src/broker/connect.js')
const { serveHttp } = await load('src/observe/http.js')
const { createMetrics } = await load('src/observe/metrics.js')
const { createCodec } = await load('src/messages/codec.js')
const { loadSchemas } = await load('src/messages/registry.js')

const environment = { OPENAI_BASE_URL: 'http://127.0.0.1:1/v1', OPENAI_API_KEY: 'none', GRAPHMILL_MODEL: 'm' }
const needsModel = processors.some(({ name }) => name === 'prompt')
const wiring = createWiring(
  { fallback: undefined, needsModel, provenance: 'subgraph', log: createLogger('silent') },
  new AbortController().signal,
)
const kept = [await wiring.wire(readConfig({ flags: {}, environment })), createCodec(loadSchemas())]
const registry = createMetrics().registry
const server = await serveHttp({
  address: '127.0.0.1:0',
  insist: true,
  registry,
  state: () => 'ready',
  details: () => ({}),
  status: async () => ({}),
})
await server.close()
await connect('kafka://127.0.0.1:1', {}, AbortSignal.timeout(100)).catch(() => {})

setFlagsFromString('--expose-gc')
runInNewContext('gc')()
const files = urls
  .filter((url) => url.startsWith('file:'))
  .map((url) => decodeURIComponent(new URL(url).pathname))
const packages = files.flatMap((file) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(file)?.[1] ?? [])
const own = files.flatMap((file) => /\/dist\/(.*)\.js$/.exec(file)?.[1] ?? [])
const hasFetch = process.moduleLoadList.includes('NativeModule internal/deps/undici/undici')
const heap = process.memoryUsage().heapUsed
const result = { packages: [...new Set(packages)].sort(), own, hasFetch, heap, kept: kept.length }
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit())
