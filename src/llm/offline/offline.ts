// The `offline` model: small rules over a real NLP library, in a worker thread, for a first impression without any server.
// It answers three prompts, always in the same way, and refuses all others.
import { Worker } from 'node:worker_threads'
import { GraphmillError } from '../../errors.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import type { OfflineResult, OfflineTask } from './worker.ts'

/** The prompts that `offline` answers. */
export const offlinePrompts: ReadonlySet<string> = new Set([
  'extract-definitions',
  'extract-relationships',
  'extract-topics',
])

export interface OfflineLlm extends Llm {
  /** Ends the thread; calls in work fail with `aborted`. The next call starts a new one. */
  close(): Promise<void>
}

/**
 * The thread starts with the first call, and keeps the process alive only while a call is in work.
 * `stream` throws `offline_unsupported` for every prompt but those of `offlinePrompts`.
 */
export function createOffline(): OfflineLlm {
  const reader = createReader()

  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    const { promptId = '', terms = {} } = request.origin ?? {}
    const text = terms['text']
    if (!offlinePrompts.has(promptId) || typeof text !== 'string')
      throw new GraphmillError(
        'offline_unsupported',
        `The offline model cannot answer ${promptId === '' ? 'a free prompt' : `the prompt ${promptId}`}.`,
      )
    const reply = await reader.read(promptId, text, signal)
    for (const line of reply.match(/.*\n/g) ?? []) {
      signal.throwIfAborted()
      yield { type: 'delta', kind: 'content', text: line }
    }
    const usage = { promptTokens: null, completionTokens: null, totalTokens: null }
    yield { type: 'end', finishReason: 'stop', usage, model: 'offline', raw: { reply } }
  }

  return {
    provider: 'offline',
    model: 'offline',
    destination: 'in this process',
    circuit: 'llm:offline in this process offline',
    isLocal: true,
    jsonFormat: false,
    stream,
    ready: async () => {},
    close: reader.close,
  }
}

interface Pending {
  readonly resolve: (reply: string) => void
  readonly reject: (error: unknown) => void
}

/** The thread, and who waits for it. */
function createReader() {
  const pending = new Map<number, Pending>()
  let worker: Worker | undefined
  let last = 0

  function start(): Worker {
    const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js'
    // Flags of the process, such as --input-type, are not for a thread that runs a file.
    const started = new Worker(new URL(`./worker${extension}`, import.meta.url), { execArgv: [] })
    started.unref()
    started.on('message', (result: OfflineResult) => {
      if ('reply' in result) pending.get(result.id)?.resolve(result.reply)
      else pending.get(result.id)?.reject(new GraphmillError('unexpected', result.error))
    })
    started.on('error', (cause) =>
      end(new GraphmillError('unexpected', 'The offline model broke down.', { cause })),
    )
    return started
  }

  function end(error: GraphmillError): Worker | undefined {
    const ended = worker
    worker = undefined
    for (const { reject } of pending.values()) reject(error)
    return ended
  }

  async function read(promptId: string, text: string, signal: AbortSignal): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const id = ++last
    const stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    pending.set(id, { resolve, reject })
    worker ??= start()
    worker.ref()
    worker.postMessage({ id, promptId, text } satisfies OfflineTask)
    try {
      return await promise
    } finally {
      signal.removeEventListener('abort', stop)
      pending.delete(id)
      if (pending.size === 0) worker?.unref()
    }
  }

  async function close(): Promise<void> {
    await end(new GraphmillError('aborted', 'The offline model was closed.'))?.terminate()
  }

  return { read, close }
}
