// The thread in which models are called: HTTP and event streams are most of a call's work, and need not block the thread that
// handles messages.
import { answerCalls } from '../../workers/answer-calls.ts'
import type { Llm } from '../llm.ts'
import { createModel, type ModelSpec } from '../providers.ts'
import { type ModelTask, maxInTransit } from './protocol.ts'

const models = new Map<string, Llm>()

answerCalls<ModelTask>(async ({ spec, request }, call) => {
  const { signal } = call
  let inTransit = 0
  let wake = () => {}
  call.onMessage = (taken) => {
    inTransit -= taken as number
    wake()
  }
  signal.addEventListener('abort', () => wake())
  for await (const event of modelOf(spec).stream(request, signal)) {
    call.report(event)
    if (event.type === 'delta') inTransit += event.text.length
    while (inTransit > maxInTransit && !signal.aborted)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
})

/** Equal specs share a model, since it remembers the parameters that its server refuses. */
function modelOf(spec: ModelSpec): Llm {
  const key = JSON.stringify(spec)
  const model = models.get(key) ?? createModel(spec)
  models.set(key, model)
  return model
}
