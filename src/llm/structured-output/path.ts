// Which mode an answer is asked for in, and which one comes next when the server refuses it. Only what was left open may change:
// a mode that was named is kept.

import type { ResolvedMode } from '../../config/models.ts'
import type { Llm } from '../llm.ts'
import type { AnswerJsonOptions } from './json-answer.ts'
import { autoMode, jsonFormatOf, objectsOnly } from './modes.ts'
import type { CheckedSchema } from './response-format.ts'
import { createRefusals, type Refusals } from './schema-refusal.ts'

export interface AnswerPath {
  readonly first: ResolvedMode
  /** What a refusal of the first leads to. */
  readonly second: ResolvedMode | undefined
  readonly refusals: Refusals
}

/** The path of a call; `auto` warns here. */
export function answerPath(options: AnswerJsonOptions, checked: CheckedSchema | undefined): AnswerPath {
  const { llm, mode: asked = llm.outputMode } = options
  const refusals = refusalsOf(llm)
  if (asked !== undefined && asked !== 'auto') return { first: asked, second: undefined, refusals }
  const mode = asked === 'auto' ? automatic(options) : checked ? 'native' : 'plain'
  const other = withoutServer(mode)
  const first = fits(mode, llm, checked) ? mode : other
  const second = checked && first !== other ? other : undefined
  return { first, second, refusals }
}

/** The models that `auto` has warned of, and the refusals that are known, by circuit: that of one model of one server. */
const warned = new Set<string>()
const refusals = new Map<string, Refusals>()

function refusalsOf({ circuit }: Llm): Refusals {
  const known = refusals.get(circuit) ?? createRefusals()
  refusals.set(circuit, known)
  return known
}

function automatic({ llm, warnAuto = true, onWarning }: AnswerJsonOptions): ResolvedMode {
  const mode = autoMode(llm)
  if (warnAuto && !warned.has(llm.circuit)) {
    warned.add(llm.circuit)
    const warn = onWarning ?? ((message: string) => process.emitWarning(message))
    warn(
      `The JSON mode auto chose ${mode} for ${llm.model} by the kind of its server, which may not fit the model. ` +
        'Where it fails, name a mode (text-based always works); warnAuto: false turns this warning off.',
    )
  }
  return mode
}

/** Whether the server can constrain a reply to this schema. */
function fits(mode: ResolvedMode, llm: Llm, checked: CheckedSchema | undefined): boolean {
  if (mode === 'native' && !jsonFormatOf(llm)) return false
  return !checked || checked.schema['type'] === 'object' || !objectsOnly(mode, llm)
}

/** The mode that asks for the same without the server's help, in the same words' family. */
export function withoutServer(mode: ResolvedMode): ResolvedMode {
  return mode === 'native' || mode === 'fallback' ? 'fallback' : 'text-based'
}
