// The thread in which models are called: HTTP and event streams cost the most of all that a call does, and none of it has to
// be done where messages are handled.
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

/** The same spec has the same model, which remembers which parameters its server does not take. */
function modelOf(spec: ModelSpec): Llm {
  const key = JSON.stringify(spec)
  const model = models.get(key) ?? createModel(spec)
  models.set(key, model)
  return model
}
