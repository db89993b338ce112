// The program of the threads that worker-calls.test.ts asks.
import { GraphmillError } from '../../src/errors.ts'
import { answerCalls, notify } from '../../src/workers/answer-calls.ts'

export type EchoTask =
  | { readonly act: 'echo'; readonly value: unknown }
  | { readonly act: 'throw' | 'throw-function' | 'wait' | 'notify' | 'exit' }

answerCalls(async (task: EchoTask, call) => {
  switch (task.act) {
    case 'echo':
      return task.value
    case 'throw':
      throw new GraphmillError('llm_rate_limited', 'too fast', {
        retryAfterMs: 5,
        circuit: 'llm:x',
        details: { category: 'x' },
        cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }),
      })
    case 'throw-function':
      throw new GraphmillError('llm_rate_limited', 'too fast', { details: { given() {} } })
    case 'wait':
      return new Promise((resolve) => call.signal.addEventListener('abort', () => resolve(notify('aborted'))))
    case 'notify':
      return notify('noticed')
    case 'exit':
      return process.exit(3)
  }
})
