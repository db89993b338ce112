// The `offline` model: a few rules on top of an NLP library, in a worker thread, for a first try without a server. It answers
// three prompts, always with the same result, and refuses all others.
import { GraphmillError } from '../../errors.ts'
import { siblingModule } from '../../workers/sibling-module.ts'
import { type CallableWorker, startWorker } from '../../workers/worker-calls.ts'
import type { CompletionEvent, CompletionRequest, Llm } from '../llm.ts'
import { unknownUsage } from '../usage.ts'
import type { OfflineTask } from './worker.ts'

/** The prompts that `offline` answers. */
const offlinePrompts: ReadonlySet<string> = new Set([
  'extract-definitions',
  'extract-relationships',
  'extract-topics',
])

export interface OfflineLlm extends Llm {
  /** Ends the thread: calls in flight fail with `aborted`. The next call starts another. */
  close(): Promise<void>
}

/**
 * The thread starts with the first call, and keeps the process alive only during calls.
 * `stream` throws `offline_unsupported` for all prompts except those of `offlinePrompts`.
 */
export function createOffline(): OfflineLlm {
  let worker: CallableWorker | undefined

  function read(task: OfflineTask, signal: AbortSignal): Promise<string> {
    if (!worker || worker.ended)
      worker = startWorker(siblingModule('worker', import.meta.url), {
        subject: 'The offline model',
        execArgv: [], // flags of the process, such as --input-type, can't be used with a file
      })
    return worker.call(task, signal)
  }

  async function* stream(request: CompletionRequest, signal: AbortSignal): AsyncGenerator<CompletionEvent> {
    signal.throwIfAborted()
    const { promptId = '', terms = {} } = request.origin ?? {}
    const text = terms['text']
    if (!offlinePrompts.has(promptId) || typeof text !== 'string')
      throw new GraphmillError(
        'offline_unsupported',
        `The offline model cannot answer ${promptId === '' ? 'a free prompt' : `the prompt ${promptId}`}.`,
      )
    const reply = await read({ promptId, text }, signal)
    for (const line of reply.match(/.*\n/g) ?? []) {
      signal.throwIfAborted()
      yield { type: 'delta', kind: 'content', text: line }
    }
    yield { type: 'end', finishReason: 'stop', usage: unknownUsage, model: 'offline', raw: { reply } }
  }

  return {
    provider: 'offline',
    model: 'offline',
    destination: 'in this process',
    circuit: 'llm:offline in this process offline',
    isLocal: true,
    stream,
    ready: async () => {},
    async close() {
      await worker?.close()
    },
  }
}
