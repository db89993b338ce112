// One call for a checked value, as `complete` and `answerJson` both make it: attempts, each in the first way that the server
// neither refuses nor ignores, and the value of each reply checked. A caller says only how one exchange goes.
import type { FinishReason, JsonSchema } from '../llm.ts'
import { isRefusalOfModel } from '../refusal-words.ts'
import { isAbort } from '../transport.ts'
import type { ProviderUsage } from '../usage.ts'
import { type Attempt, type AttemptRecord, type AttemptsOptions, runAttempts } from './attempts.ts'
import type { CheckedSchema } from './checked-schema.ts'
import { StructuredOutputInvalid } from './invalid-error.ts'
import {
  type Aid,
  afterRefusal,
  ignored,
  isRefusedToo,
  type Lesson,
  type Refusals,
  type Way,
  waysFrom,
} from './schema-refusal.ts'
import type { FoundValue } from './value.ts'

/** In which ways a call may ask. */
export interface ModePath<Mode> {
  readonly ways: readonly Way<Mode>[]
  /** What is known of the server. */
  readonly refusals: Refusals
}

/** What is known of a reply beside its text. */
interface ReplyFacts {
  readonly finishReason: FinishReason
  readonly usage: ProviderUsage
  /** The model repeated itself without end, and was stopped. */
  readonly repeats?: boolean
}

export interface StructuredCall<Mode, Reply extends ReplyFacts> extends AttemptsOptions {
  readonly schema: CheckedSchema | undefined
  readonly path: ModePath<Mode>
  /** The way to begin with. Default: the first that the server has not refused for this schema. */
  readonly aid?: Aid | undefined
  /** Receives the first way if there are several, and each that follows a refused one. */
  readonly onWay?: ((aid: Aid) => void) | undefined
  /** Receives a sentence for the log when a way is abandoned for good. */
  readonly onNote?: ((note: string) => void) | undefined
  /** Whether a reply that ignores the schema is followed by another exchange at once. Default: only by the next attempt. */
  readonly goesOnAtOnce?: boolean
  /** Whether an invalid reply may be followed by another exchange. Default: always. */
  readonly mayAsk?: (() => boolean) | undefined
  /** The caller's extra fields for the body of an attempt's request. */
  readonly extrasOf: (attempt: Attempt) => Readonly<Record<string, unknown>> | undefined
  /** One exchange with the server. */
  readonly ask: (way: Way<Mode>, attempt: Attempt) => Promise<Reply>
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
}

/** Throws StructuredOutputInvalid for a reply without a usable value, and what `ask` throws. */
export async function callStructured<Mode, Reply extends ReplyFacts>(
  call: StructuredCall<Mode, Reply>,
): Promise<StructuredReply<Mode, Reply> & { readonly attempts: readonly AttemptRecord[] }> {
  const { path, onNote = () => {}, around = (_, work) => work() } = call
  const schema = call.schema?.schema
  /** The ways that remain. Later attempts stay in the one that worked. */
  let ways = schema ? left(path, schema, call.aid) : path.ways
  /** Why the way before these was abandoned, until this is remembered or refuted. */
  let lesson: Lesson | undefined
  let invalid: StructuredOutputInvalid | undefined

  function keepLesson(): void {
    const note = lesson && path.refusals.learn(lesson, ways[0]!.aid, schema!)
    lesson = undefined
    if (note) onNote(note)
  }

  /** The next way may fare no better: then the lesson was about something else. */
  function judge(thrown: unknown): void {
    if (lesson?.isIgnored ? isNoJson(thrown) : isRefusedToo(thrown)) lesson = undefined
    else keepLesson()
  }

  async function exchange(attempt: Attempt): Promise<StructuredReply<Mode, Reply>> {
    if (invalid && call.mayAsk?.() === false) throw invalid
    const way = ways[0]!
    try {
      const reply = await call.ask(way, attempt)
      attempt.paid(reply.usage)
      const value = await checkedValue(call, reply)
      keepLesson()
      return { reply, value, mode: way.mode }
    } catch (thrown) {
      const next = schema && nextWays(thrown, ways, call.extrasOf(attempt))
      if (next) ({ lesson, ways } = next)
      else judge(thrown)
      if (next && !next.lesson.isIgnored) call.onWay?.(ways[0]!.aid)
      if (thrown instanceof StructuredOutputInvalid) invalid = thrown
      if (next && (call.goesOnAtOnce || !next.lesson.isIgnored)) return exchange(attempt)
      throw thrown
    }
  }

  if (path.ways.length > 1) call.onWay?.(ways[0]!.aid)
  try {
    return await runAttempts(call, (attempt) => around(attempt, () => exchange(attempt)))
  } finally {
    // No exchange followed that could refute it.
    keepLesson()
  }
}

function left<Mode>({ ways, refusals }: ModePath<Mode>, schema: JsonSchema, aid: Aid | undefined) {
  return aid ? waysFrom(ways, aid) : refusals.left(ways, schema)
}

function nextWays<Mode>(
  thrown: unknown,
  ways: readonly Way<Mode>[],
  extras: Readonly<Record<string, unknown>> | undefined,
) {
  const inPrompt = ways.slice(1).filter(({ aid }) => aid === 'prompt')
  if (isNoJson(thrown) && inPrompt.length > 0) return { lesson: ignored, ways: inPrompt }
  return afterRefusal(thrown, ways, extras)
}

/** A model that ended by itself, wrote something that does not even begin with JSON, and did not refuse, was not held to JSON. */
function isNoJson(thrown: unknown): boolean {
  if (!(thrown instanceof StructuredOutputInvalid) || thrown.code !== 'reply_not_json') return false
  const { finishReason, outputContent } = thrown
  return finishReason === 'stop' && /^\s*[^\s{[]/.test(outputContent) && !isRefusalOfModel(outputContent)
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
  { finishReason, usage, repeats }: ReplyFacts,
  responseSchema: JsonSchema | undefined,
): StructuredOutputInvalid {
  const code = repeats ? 'repetition' : type === 'not_json' ? 'reply_not_json' : 'reply_schema_failed'
  const known = { code, errorMessage: problem, outputContent, responseSchema, finishReason, usage } as const
  return new StructuredOutputInvalid({ ...known, cause })
}
