// Which mode a JSON answer is asked for in, and which one follows when the server refuses it. A mode that the caller named
// stays.
import type { AnswerMode, ResolvedMode } from '../../config/models.ts'
import type { Llm } from '../llm.ts'
import type { CheckedSchema } from './checked-schema.ts'
import { autoMode, jsonFormatOf, objectsOnly } from './modes.ts'
import { refusalsOf, type Way } from './schema-refusal.ts'
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
  const own = (mode: ResolvedMode): Way<ResolvedMode>[] => [
    { aid: 'server', mode },
    ...(mode === 'native' && checked && jsonFormatOf(llm)?.loose?.(checked.schema)
      ? [{ aid: 'loose', mode } as const]
      : []),
  ]
  if (asked !== undefined && asked !== 'auto') return { ways: own(asked), refusals }
  const mode = asked === 'auto' ? automatic(options) : checked ? 'native' : 'plain'
  const other = withoutServer(mode)
  const first = fits(mode, llm, checked) ? mode : other
  return { ways: first === other ? own(first) : [...own(first), { aid: 'prompt', mode: other }], refusals }
}

/** The models that `auto` has warned of, by circuit. */
const warned = new Set<string>()

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
