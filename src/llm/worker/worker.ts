// The thread in which models are called: HTTP and event streams cost the most of all that a call does, and none of it has to
// be done where messages are handled.
import { parentPort } from 'node:worker_threads'
import type { Llm } from '../llm.ts'
import { createModel, type ModelSpec } from '../providers.ts'
import { dataOf, mostOnTheWay, type Order, type Report } from './protocol.ts'

interface Call {
  readonly stopping: AbortController
  onTheWay: number
  /** Called when some were taken, or the call is to end. */
  wake: () => void
}

const port = parentPort!
const models = new Map<string, Llm>()
const calls = new Map<number, Call>()

port.on('message', (order: Order) => {
  const { id } = order
  if ('request' in order) {
    const call: Call = { stopping: new AbortController(), onTheWay: 0, wake() {} }
    calls.set(id, call)
    void perform(order, call).finally(() => calls.delete(id))
    return
  }
  const call = calls.get(id)
  if (!call) return
  if ('taken' in order) call.onTheWay -= order.taken
  else call.stopping.abort()
  call.wake()
})

async function perform(
  { id, spec, request }: Extract<Order, { request: unknown }>,
  call: Call,
): Promise<void> {
  const { signal } = call.stopping
  try {
    for await (const event of modelOf(spec).stream(request, signal)) {
      say({ id, event })
      if (event.type === 'delta') call.onTheWay += event.text.length
      while (call.onTheWay > mostOnTheWay && !signal.aborted)
        await new Promise<void>((resolve) => {
          call.wake = resolve
        })
    }
    say({ id, over: true })
  } catch (thrown) {
    const error = dataOf(thrown)
    try {
      say({ id, error })
    } catch {
      say({ id, error: { ...error, details: {} } }) // they hold what can't be sent to another thread
    }
  }
}

const say = (report: Report) => port.postMessage(report)

/** The same one for the same words: it remembers which parameters its server does not take. */
function modelOf(spec: ModelSpec): Llm {
  const words = JSON.stringify(spec)
  const model = models.get(words) ?? createModel(spec)
  models.set(words, model)
  return model
}
