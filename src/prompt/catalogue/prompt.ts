// What a prompt and a catalogue of prompts are.
import type { AnswerMode } from '../../config/models.ts'
import { GraphmillError } from '../../errors.ts'
import type { ItemSchema } from '../../items/validate.ts'
import type { JsonSchema, Sampling } from '../../llm/llm.ts'
import type { PromptExample, ResponseType } from './definition.ts'
import { suggest } from './problem.ts'
import type { Terms } from './terms.ts'

export interface RenderedPrompt {
  /** Empty when there is no system template. */
  readonly system: string
  readonly user: string
}

/** A prompt: its templates, how the model is asked, and what it must answer. */
export interface Prompt {
  readonly id: string
  readonly responseType: ResponseType
  /** Compiled; for one item of a jsonl prompt, for the whole value of a json prompt. */
  readonly schema?: ItemSchema
  /** The item types that the schema tells apart. */
  readonly types: readonly string[]
  /** The same as it is written in the file. */
  readonly jsonSchema?: JsonSchema
  readonly description?: string
  /** How JSON is asked for; it overrides that of the model. */
  readonly outputMode?: AnswerMode
  /** What the prompt sets; mostly nothing. */
  readonly sampling: Sampling
  readonly maxContinuations?: number
  readonly examples: readonly PromptExample[]
  /** The file that it comes from. */
  readonly file: string
  /**
   * The messages for decoded terms. A request's terms override the prompt's, and these override the global ones.
   * The system template sees the same terms.
   *
   * @throws GraphmillError `prompt_render_failed`
   */
  render(terms: Terms): RenderedPrompt
}

/** The prompts of a flow, by id. */
export interface Catalogue {
  /** By id or alias. @throws GraphmillError `prompt_unknown`, with a suggestion for a near id. */
  get(id: string): Prompt
  /** By id or alias; undefined when there is none. */
  find(id: string): Prompt | undefined
  /** Every id, sorted, without aliases. */
  ids(): readonly string[]
}

/** The catalogue of prompts with their aliases. */
export function catalogueOf(
  compiled: readonly { readonly prompt: Prompt; readonly aliases: readonly string[] }[],
): Catalogue {
  const prompts = new Map(compiled.map(({ prompt }) => [prompt.id, prompt]))
  const byAlias = new Map(compiled.flatMap(({ prompt, aliases }) => aliases.map((alias) => [alias, prompt])))
  const ids = [...prompts.keys()].sort()
  const find = (id: string) => prompts.get(id) ?? byAlias.get(id)
  return {
    find,
    get(id) {
      const prompt = find(id)
      if (prompt !== undefined) return prompt
      const hint = suggest(id, [...prompts.keys(), ...byAlias.keys()])
      throw new GraphmillError('prompt_unknown', `there is no prompt "${id}"${hint}`, {
        details: { prompt: id },
      })
    },
    ids: () => ids,
  }
}
