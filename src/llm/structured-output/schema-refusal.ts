// Which ways there are to ask a server for a schema, which one follows when the server refuses a way or ignores it, and what is
// remembered of that: a way that failed once is not tried again.
import { GraphmillError } from '../../errors.ts'
import { flatJson } from '../cache/canonical.ts'
import type { JsonSchema } from '../llm.ts'
import { ProviderError } from '../provider-error.ts'

/** Who is responsible for the schema: the server; the server, without `strict`; or the model, which reads the schema in the prompt. */
export const aids = ['server', 'loose', 'prompt'] as const
export type Aid = (typeof aids)[number]

/** One way to ask. A list of ways is in the order of `aids`, has only ways that exist, and is never empty. */
export interface Way<Mode> {
  readonly aid: Aid
  readonly mode: Mode
}

/** The ways from `aid` on; if there are none, the last way of all. */
export function waysFrom<Mode>(ways: readonly Way<Mode>[], aid: Aid): readonly Way<Mode>[] {
  const left = ways.filter((way) => aids.indexOf(way.aid) >= aids.indexOf(aid))
  return left.length > 0 ? left : ways.slice(-1)
}

/** Why a way was abandoned. */
export interface Lesson {
  /** For all schemas, not only for the one that was sent. */
  readonly isGeneral: boolean
  readonly isIgnored: boolean
}

/** The server answered as if it had not been asked for JSON. */
export const ignored: Lesson = { isGeneral: true, isIgnored: true }

/** What a failure teaches, and the ways that may work after it; undefined when it was no refusal, or the first way is the last. */
export function afterRefusal<Mode>(
  thrown: unknown,
  [, ...others]: readonly Way<Mode>[],
  extras: Readonly<Record<string, unknown>> = {},
): { readonly lesson: Lesson; readonly ways: readonly Way<Mode>[] } | undefined {
  const words = refusalOf(thrown)
  // A refusal of grammars is about the caller's own grammar.
  const isOwn = words !== undefined && 'grammar' in extras && !/format/i.test(words)
  if (words === undefined || isOwn) return undefined
  const ways = isAsWithout(words) ? others.filter(({ aid }) => aid !== 'loose') : others
  if (ways.length === 0) return undefined
  return { lesson: { isGeneral: !ofSchema.test(words), isIgnored: false }, ways }
}

/** A model and its server, as the log names them. */
interface AskedModel {
  readonly destination: string
  readonly model: string
}

/** Schemas of one model that are remembered, the latest refused: callers may make theirs as they go. */
const maxSchemas = 1000

/** What one model of one server has refused or ignored, for all schemas and for single ones. */
export class Refusals {
  readonly #server: string
  #general: Aid = 'server'
  readonly #schemas = new Map<string, Aid>()

  constructor({ destination, model }: AskedModel) {
    this.#server = `${model} at ${destination}`
  }

  /** The ways that are still worth trying for a schema. */
  left<Mode>(ways: readonly Way<Mode>[], schema: JsonSchema): readonly Way<Mode>[] {
    const own = this.#schemas.size > 0 ? this.#schemas.get(flatJson(schema)) : undefined
    return waysFrom(waysFrom(ways, this.#general), own ?? 'server')
  }

  /** Remembers that the ways before `aid` do not work. Returns a sentence for the log, unless that was known. */
  learn({ isGeneral, isIgnored }: Lesson, aid: Aid, schema: JsonSchema): string | undefined {
    const key = flatJson(schema)
    // Whether a server takes `strict` may depend on the schema.
    const isOfAll = isGeneral && aid === 'prompt'
    const known = isOfAll ? this.#general : this.#schemas.get(key)
    if (known === aid) return undefined
    if (isOfAll) this.#general = aid
    else {
      this.#schemas.delete(key)
      this.#schemas.set(key, aid)
    }
    if (this.#schemas.size > maxSchemas) this.#schemas.delete(this.#schemas.keys().next().value!)
    const then =
      aid === 'loose' ? 'It is sent without `strict`.' : 'The model is asked in the prompt instead.'
    return isIgnored
      ? `${this.#server} does not keep to the JSON that it is asked for. ${then}`
      : `${this.#server} does not take the schema. ${then}`
  }
}

/** The refusals that are known, by circuit: one model of one server. */
const known = new Map<string, Refusals>()

export function refusalsOf(llm: AskedModel & { readonly circuit: string }): Refusals {
  const { circuit } = llm
  const refusals = known.get(circuit) ?? new Refusals(llm)
  known.set(circuit, refusals)
  return refusals
}

/** Whether a failure shows that an earlier refusal was about something else than the way. */
export function isRefusedToo(thrown: unknown): boolean {
  return thrown instanceof ProviderError && thrown.category === 'provider_invalid_request'
}

/** Whether a server refused a request because of the form of reply that it asks for. */
export function isOutputRefusal(thrown: unknown): boolean {
  return refusalOf(thrown) !== undefined
}

/** The server's words, when they are about structured output. */
function refusalOf(thrown: unknown): string | undefined {
  if (!(thrown instanceof GraphmillError)) return undefined
  const { status, param, server } = thrown.details as { status?: number; param?: string; server?: string }
  const words = `${param ?? ''} ${server ?? ''}`
  // A router without a server for this form answers as if the path were wrong.
  const isRefusal =
    thrown.code === 'llm_request_invalid' || status === 404 || status === 500 || status === 501
  return isRefusal && (about.test(words) || param === 'format') ? words : undefined
}

const about =
  /response[_ .-]?format|json[_ -]?(schema|mode|object)|structured[_ ]?output|guided|grammar|\bstrict\b/i
/** What is refused is this schema, not every schema. A grammar is made from the schema. */
const ofSchema =
  /invalid (json )?schema|\.schema\b|(grammar|schema)s? (is|are) too|too many|grammar|\bstrict\b/i

/** Whether the server would say the same without `strict`: it does not know the field at all, or makes a grammar in any case. */
function isAsWithout(words: string): boolean {
  return !/\bstrict\b/i.test(words) && (/grammar|guided/i.test(words) || unknownField.test(words))
}

const field = '(response[_ .-]?format|json[_ -]?(schema|mode|object)|structured[_ ]?outputs?)'
const unknownField = new RegExp(
  `${field}\\W*(types? |fields? |parameters? )?(is |are )?(currently )?(not |un)(yet )?(supported|available|known|recogni[sz]ed|implemented|permitted)` +
    `|\\b(no|does not support|unsupported|unknown|unexpected|unrecogni[sz]ed) (support for )?\\W*${field}` +
    '|\\b(unsupported|unknown|unexpected|unrecogni[sz]ed|extra) (field|param|parameter|argument|key|property|input)',
  'i',
)
