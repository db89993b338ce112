// What is checked of a message before its processor gets it.
import { GraphmillError } from '../../errors.ts'
import type { Message } from '../../messages/envelope.ts'
import { longestTimerMs } from '../../wait.ts'
import { isOfRequest } from '../context-signature.ts'
import { isReply, payloadAt, replyRoute } from '../ports.ts'
import type { ConsumerBinding } from './consumer-binding.ts'
import type { InFlightDelivery } from './in-flight.ts'
import type { RunnerResources } from './resources.ts'

/** The largest context of a request, in bytes: every reply part repeats it. */
const maxContextBytes = 4096

type CheckResources = Pick<RunnerResources, 'circuits' | 'clock' | 'signer' | 'space' | 'topics'>

/** Throws, or rejects with, the error for which the message is dead. Undefined when there is nothing to wait for. */
export function checkMessage(
  message: Message,
  binding: ConsumerBinding,
  resources: CheckResources,
): Promise<void> | undefined {
  const { signer, space, topics } = resources
  const { port, scope, processor } = binding
  checkAddress(message, binding)
  checkContext(message, binding, signer)
  // Progress reports what was done, so it counts however late it comes.
  if (port !== 'progress' && message.deadline !== null && message.deadline <= resources.clock.now())
    throw deadlineExceeded(message.deadline, binding, resources)
  // A reply that can't be delivered must not cost a call of the model.
  if (!processor.outputs.some(isReply)) return undefined
  return topics.checkReplyTopic(replyRoute(message.replyTo, { space, ...scope }).topic)
}

/** Aborts the work on a request at its deadline: nobody waits for its reply any longer. Returns what lifts the deadline. */
export function watchDeadline(
  { deadline }: Message,
  binding: ConsumerBinding,
  resources: CheckResources,
  work: InFlightDelivery,
): () => void {
  if (deadline === null || !binding.processor.outputs.some(isReply)) return () => {}
  const left = deadline - resources.clock.now()
  if (left > longestTimerMs) return () => {}
  const timer = setTimeout(() => work.abort(deadlineExceeded(deadline, binding, resources)), left)
  return () => clearTimeout(timer)
}

/** The caller gets to know what its request has waited for. */
function deadlineExceeded(
  deadline: number,
  { processor, services }: ConsumerBinding,
  { circuits }: Pick<CheckResources, 'circuits'>,
): GraphmillError {
  const cause = processor.outputs.some(isReply) ? circuits.reason(services.llm.circuit) : undefined
  const why = cause ? ` The last failure was ${cause.code}: ${cause.message}` : ''
  const message = `The deadline was ${new Date(deadline).toISOString()}.${why}`
  return new GraphmillError('deadline_exceeded', message, { cause })
}

function checkAddress({ type, workspace, flow }: Message, { port, scope }: ConsumerBinding): void {
  const expected = payloadAt(port)
  if (type !== expected)
    throw new GraphmillError('message_misplaced', `A ${type} is on a topic that takes ${expected}.`)
  if (workspace !== scope.workspace || flow !== scope.flow)
    throw new GraphmillError('message_invalid', `The message is of ${workspace}/${flow}, its topic is not.`)
}

/** No processor reads the reply to another one's request, and a signed context counts for one request only. */
function checkContext(message: Message, { topic }: ConsumerBinding, signer: RunnerResources['signer']): void {
  if (message.type === 'PromptRequest' || message.type === 'TextCompletionRequest')
    checkContextSize(message.payload.context)
  if (message.type === 'PromptResponse' && !signer.accepts(message, topic))
    throw new GraphmillError(
      'context_unsigned',
      'No processor of this flow has signed the context of the reply.',
    )
  if (message.type === 'PromptRequest' && !isOfRequest(message))
    throw new GraphmillError('context_unsigned', 'The context was signed for another request.')
}

function checkContextSize(context: Readonly<Record<string, string>>): void {
  let bytes = 0
  for (const [name, value] of Object.entries(context))
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value)
  if (bytes > maxContextBytes)
    throw new GraphmillError(
      'context_too_large',
      `The context of the request has ${bytes} bytes, and may have ${maxContextBytes}.`,
    )
}
