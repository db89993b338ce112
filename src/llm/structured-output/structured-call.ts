// One call for a checked value, as `complete` and `answerJson` both make it: attempts, each in the first mode until the server
// refuses that and then in the second, and the value of each reply checked. A caller says only how one exchange goes.
import type { FinishReason, JsonSchema } from '../llm.ts'
import { isAbort } from '../transport.ts'
import type { ProviderUsage } from '../usage.ts'
import { type Attempt, type AttemptRecord, type AttemptsOptions, runAttempts } from './attempts.ts'
import type { CheckedSchema } from './checked-schema.ts'
import { StructuredOutputInvalid } from './invalid-error.ts'
import type { Refusals } from './schema-refusal.ts'
import type { FoundValue } from './value.ts'

/** Which mode a call asks in. */
export interface ModePath<Mode> {
  readonly first: Mode
  /** The mode after the server refused the first. Default: the refusal is the call's failure. */
  readonly second?: Mode | undefined
  /** Which schemas the server refused; only with `second`. */
  readonly refusals: Refusals
}

/** What is known of a reply beside its text. */
interface ReplyFacts {
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
}

export interface StructuredCall<Mode, Reply extends ReplyFacts> extends AttemptsOptions {
  readonly schema: CheckedSchema | undefined
  readonly path: ModePath<Mode>
  /** Whether to begin with the second mode. Default: when the server has refused this schema. */
  readonly unaided?: boolean | undefined
  /** The caller's extra fields for the body of an attempt's request. */
  readonly extrasOf: (attempt: Attempt) => Readonly<Record<string, unknown>> | undefined
  /** One exchange with the server. */
  readonly ask: (mode: Mode, attempt: Attempt) => Promise<Reply>
  /** Runs an attempt with whatever observes it. Default: nothing does. */
  readonly around?: (
    attempt: Attempt,
    work: () => Promise<StructuredReply<Mode, Reply>>,
  ) => Promise<StructuredReply<Mode, Reply>>
  /** What the model wrote; undefined when the reply holds no value, for example when it calls a tool. */
  readonly textOf: (reply: Reply) => string | undefined
  readonly find: (text: string) => FoundValue
  /** A further check of a value that fits the schema: returns the value to use, or throws what is wrong with it. */
  readonly refine?: ((value: unknown) => unknown) | undefined
}

export interface StructuredReply<Mode, Reply> {
  readonly reply: Reply
  readonly value: unknown
  readonly mode: Mode
  /** All attempts, this one last. */
  readonly attempts: readonly AttemptRecord[]
}

/** Throws StructuredOutputInvalid for a reply without a usable value, and what `ask` throws. */
export function callStructured<Mode, Reply extends ReplyFacts>(
  call: StructuredCall<Mode, Reply>,
): Promise<StructuredReply<Mode, Reply>> {
  let { unaided } = call
  const { first, second, refusals } = call.path
  const schema = call.schema?.schema
  const { around = (_, work) => work() } = call

  return runAttempts(call, (attempt) => around(attempt, () => evaluated(attempt)))

  async function evaluated(attempt: Attempt) {
    const inMode = async (mode: Mode) => {
      const reply = await call.ask(mode, attempt)
      const attempts = [...attempt.earlier, attempt.record]
      return { reply, value: await checkedValue(call, reply), mode, attempts }
    }
    if (!schema || second === undefined) return inMode(first)
    if (unaided ?? refusals.has(schema)) return inMode(second)
    try {
      return await inMode(first)
    } catch (thrown) {
      return refusals.goOn({ thrown, schema, extras: call.extrasOf(attempt) }, () => {
        // Later attempts stay in the second mode, also when the caller asked to begin with the first.
        if (unaided === false) unaided = true
        return inMode(second)
      })
    }
  }
}

async function checkedValue<Mode, Reply extends ReplyFacts>(
  { textOf, find, refine, schema }: StructuredCall<Mode, Reply>,
  reply: Reply,
): Promise<unknown> {
  const text = textOf(reply)
  if (text === undefined) return undefined
  const found = find(text)
  if (found.type !== 'value') throw invalidReply(found, text, reply, schema?.schema)
  try {
    return refine ? await refine(found.value) : found.value
  } catch (cause) {
    if (isAbort(cause)) throw cause
    const problem = cause instanceof Error ? cause.message : String(cause)
    throw invalidReply({ type: 'failed', problem, cause }, text, reply, schema?.schema)
  }
}

function invalidReply(
  { type, problem, cause }: Exclude<FoundValue, { type: 'value' }>,
  outputContent: string,
  { finishReason, usage }: ReplyFacts,
  responseSchema: JsonSchema | undefined,
): StructuredOutputInvalid {
  const code = type === 'not_json' ? 'reply_not_json' : 'reply_schema_failed'
  const known = { code, errorMessage: problem, outputContent, responseSchema, finishReason, usage } as const
  return new StructuredOutputInvalid({ ...known, cause })
}
