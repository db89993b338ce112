// How `doctor` checks the embeddings endpoint and the SPARQL store: each is used as the processors use it, with a request that
// changes nothing.
import type { Config } from '../config/config.ts'
import { type GraphmillError, toGraphmillError } from '../errors.ts'
import { createEmbed } from '../ontology/embeddings.ts'
import { unlessAborted } from '../wait.ts'
import { type CheckResult, failedWith, ok, patienceMs } from './check-result.ts'
import { embeddingsOf } from './ontologies.ts'
import { openRemoteStore } from './stores.ts'

/** Requests the vector of one word. Yields nothing if no endpoint is configured. */
export async function* checkEmbeddings(config: Config, signal: AbortSignal): AsyncGenerator<CheckResult> {
  try {
    const server = embeddingsOf(config)
    if (!server) return
    const started = performance.now()
    let length = 0
    const asked = createEmbed({ ...server, timeoutMs: patienceMs })(['mill']).then(([vector]) => {
      length = vector!.length
    })
    await unlessAborted(asked, signal)
    const seconds = ((performance.now() - started) / 1000).toFixed(1)
    yield ok('embeddings', `${server.model} answers within ${seconds} s, with vectors of ${length} numbers`)
  } catch (thrown) {
    signal.throwIfAborted()
    const error = toGraphmillError(thrown)
    yield failedWith('embeddings', error, fixes.embeddings[statusOf(error)])
  }
}

/** Sends an empty update. Yields nothing if triples go to files. */
export async function* checkStore({ options }: Config, signal: AbortSignal): AsyncGenerator<CheckResult> {
  if (options.store === undefined) return
  try {
    const store = openRemoteStore(options.store, options, patienceMs)
    await store.write([], options, signal)
    yield ok('store', `${store.destination} accepts updates`)
  } catch (thrown) {
    signal.throwIfAborted()
    const error = toGraphmillError(thrown)
    yield failedWith('store', error, fixes.store[statusOf(error)])
  }
}

/** The HTTP status of the answer; 0 if there was none. */
const statusOf = ({ details }: GraphmillError) => Number(details['status'] ?? 0)

const anEndpoint =
  'Name an endpoint for updates in --store, such as http://host:3030/dataset/update, or one of the Graph Store Protocol with --store-protocol graph-store; a store that was started read-only accepts none.'
const aModel =
  'Check that --embeddings-model names a model that the server has, and that the path in --embeddings is right: …/v1/embeddings, or …/api/embed for Ollama.'
const aKey = 'Set --embeddings-key to a key that the server accepts.'

/** What to do, by HTTP status; for all others, the remedy of the error. */
const fixes: { readonly [C in 'embeddings' | 'store']: Readonly<Record<number, string>> } = {
  embeddings: { 400: aModel, 401: aKey, 403: aKey, 404: aModel, 405: aModel },
  store: {
    400: anEndpoint,
    401: 'Set --store-token, or include user and password in --store, as in http://user:password@host/….',
    403: 'Give the user in --store write access, and start the store so that it accepts updates: it may be read-only.',
    404: anEndpoint,
    405: anEndpoint,
    415: anEndpoint,
    501: anEndpoint,
  },
}
