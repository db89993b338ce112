// Which mode a JSON answer is asked for in, and which one follows when the server refuses it. A mode that the caller named
// stays.
import type { AnswerMode, ResolvedMode } from '../../config/models.ts'
import type { Llm } from '../llm.ts'
import type { CheckedSchema } from './checked-schema.ts'
import { autoMode, jsonFormatOf, objectsOnly } from './modes.ts'
import { Refusals } from './schema-refusal.ts'
import type { ModePath } from './structured-call.ts'

export interface PathOptions {
  readonly llm: Llm
  readonly mode?: AnswerMode | undefined
  readonly warnAuto?: boolean | undefined
  readonly onWarning?: ((message: string) => void) | undefined
}

/** The path of a call; `auto` warns here. */
export function answerPath(options: PathOptions, checked: CheckedSchema | undefined): ModePath<ResolvedMode> {
  const { llm, mode: asked = llm.outputMode } = options
  const refusals = refusalsOf(llm)
  if (asked !== undefined && asked !== 'auto') return { first: asked, refusals }
  const mode = asked === 'auto' ? automatic(options) : checked ? 'native' : 'plain'
  const other = withoutServer(mode)
  const first = fits(mode, llm, checked) ? mode : other
  return { first, second: first === other ? undefined : other, refusals }
}

/** The models that `auto` has warned of, and the refusals that are known, by circuit: one model of one server. */
const warned = new Set<string>()
const refusals = new Map<string, Refusals>()

function refusalsOf({ circuit }: Llm): Refusals {
  const known = refusals.get(circuit) ?? new Refusals()
  refusals.set(circuit, known)
  return known
}

function automatic({ llm, warnAuto = true, onWarning }: PathOptions): ResolvedMode {
  const mode = autoMode(llm)
  if (warnAuto && !warned.has(llm.circuit)) {
    warned.add(llm.circuit)
    const warn = onWarning ?? ((message: string) => process.emitWarning(message))
    warn(
      `The JSON mode auto chose ${mode} for ${llm.model} by the kind of its server, which may not fit the model. ` +
        'If it fails, name a mode (text-based always works); warnAuto: false turns this warning off.',
    )
  }
  return mode
}

/** Whether the server can constrain a reply to this schema. */
function fits(mode: ResolvedMode, llm: Llm, checked: CheckedSchema | undefined): boolean {
  if (mode === 'native' && !jsonFormatOf(llm)) return false
  return !checked || checked.schema['type'] === 'object' || !objectsOnly(mode, llm)
}

/** The mode that asks for the same with similar words, without the server's own constraint. */
export function withoutServer(mode: ResolvedMode): ResolvedMode {
  return mode === 'native' || mode === 'fallback' ? 'fallback' : 'text-based'
}
