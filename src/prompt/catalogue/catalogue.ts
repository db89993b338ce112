// The prompts in use: the built-in ones, overridden by those of the user, later files first. Loading reads and compiles
// everything before it gives a catalogue, or gives none, so that a reload can swap one for the other.

import { fileURLToPath } from 'node:url'
import type { AnswerMode } from '../../config/models.ts'
import { GraphmillError } from '../../errors.ts'
import { compileSchema, type ItemSchema } from '../../items/validate.ts'
import type { JsonSchema, Sampling } from '../../llm/llm.ts'
import { compileTemplate, type Dialect, type Template } from '../template/template.ts'
import { TemplateFault } from '../template/tree.ts'
import type { PromptDefinition, PromptExample, ResponseType, SystemDefinition } from './definition.ts'
import { mergePrompts, type PlacedDefinition, readLayer } from './layer.ts'
import { type Problem, problemsError, suggest } from './problem.ts'
import { type KeyPath, reporter, type Source } from './source.ts'
import { overrideTerms, type Terms } from './terms.ts'

export interface RenderedPrompt {
  /** Empty when there is no system template. */
  readonly system: string
  readonly user: string
}

export interface Prompt {
  readonly id: string
  readonly responseType: ResponseType
  /** Compiled; for one item of a jsonl prompt, for the whole value of a json prompt. */
  readonly schema?: ItemSchema
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

export interface Catalogue {
  /** By id or alias. @throws GraphmillError `prompt_unknown`, with a suggestion for a near id. */
  get(id: string): Prompt
  /** By id or alias; undefined when there is none. */
  find(id: string): Prompt | undefined
  /** Every id, sorted, without aliases. */
  ids(): readonly string[]
}

/**
 * The built-in prompts and, over them, those of `paths`: files or folders, a later one over an earlier one, id by id.
 * A file holds one prompt (its name is the id), the system template (`system.yaml`), or TrustGraph's whole configuration.
 *
 * @throws GraphmillError with the first problem's code and place, all of them in `details.problems`
 */
export async function loadCatalogue(paths: readonly string[] = []): Promise<Catalogue> {
  const { catalogue, problems } = await readCatalogue(paths)
  const [first, ...others] = problems
  if (first !== undefined) throw problemsError([first, ...others])
  return catalogue
}

/** Beside `src`, and beside `dist/src`, where the build copies it. */
const builtIn = new URL('../../../prompts/', import.meta.url)

export interface CompiledPrompt {
  readonly prompt: Prompt
  readonly aliases: readonly string[]
  readonly source: Source
  readonly at: KeyPath
}

/** The catalogue of what compiles, and everything that is wrong with the rest. */
export async function readCatalogue(paths: readonly string[]) {
  const problems: Problem[] = []
  const layers = [await readLayer(fileURLToPath(builtIn), 'prompts', problems)]
  for (const path of paths) layers.push(await readLayer(path, path, problems))
  const system = compileSystem(
    layers.flatMap(({ systems }) => systems),
    problems,
  )
  const compiled = [...mergePrompts(layers, problems).values()]
    .map((entry) => compilePrompt(entry, system, problems))
    .filter((prompt) => prompt !== undefined)
  return { catalogue: catalogueOf(compiled), compiled, problems }
}

interface SystemTemplate {
  readonly template: Template | undefined
  /** Global terms. */
  readonly terms: Terms
}

/** The last system template, and the global terms of all. */
function compileSystem(
  entries: readonly PlacedDefinition<SystemDefinition>[],
  problems: Problem[],
): SystemTemplate {
  const entry = entries.findLast(({ definition }) => definition.prompt !== undefined)
  const terms = Object.fromEntries(entries.flatMap(({ definition }) => Object.entries(definition.terms)))
  const template =
    entry && compileText(entry.definition.prompt!, 'system', entry.definition.dialect, { ...entry, problems })
  return { template, terms }
}

/** The prompt, or undefined when its template or schema has a fault, which is added to `problems`. */
function compilePrompt(
  { definition, source, at }: PlacedDefinition<PromptDefinition>,
  system: SystemTemplate,
  problems: Problem[],
): CompiledPrompt | undefined {
  const { prompt: text, dialect, schema: jsonSchema, terms: ownTerms, aliases, ...rest } = definition
  const place = { source, at: [...at, 'prompt'], problems }
  const template = compileText(text, definition.id, dialect, place)
  const schema = jsonSchema && checkedSchema(jsonSchema, { source, at: [...at, 'schema'], problems })
  if (template === undefined || (jsonSchema !== undefined && schema === undefined)) return undefined
  const prompt: Prompt = {
    ...rest,
    ...(jsonSchema !== undefined && { jsonSchema }),
    ...(schema !== undefined && { schema }),
    file: source.file,
    render(terms) {
      const all = overrideTerms({ ...system.terms, ...ownTerms }, terms)
      return { system: system.template?.render(all) ?? '', user: template.render(all) }
    },
  }
  return { prompt, aliases, source, at }
}

/** A place in a prompt file. */
interface SourcePlace {
  readonly source: Source
  readonly at: KeyPath
  readonly problems: Problem[]
}

function compileText(
  text: string,
  id: string,
  dialect: Dialect,
  { source, at, problems }: SourcePlace,
): Template | undefined {
  try {
    return compileTemplate(text, id, dialect)
  } catch (error) {
    const fault = (error as Error).cause
    const line =
      fault instanceof TemplateFault && fault.line > 0 ? source.lineOfText(at, fault.line) : undefined
    // When the file's lines are not known, the message says which line of the template it is.
    const message = line === undefined ? (error as Error).message : (fault as Error).message
    reporter(source, problems)(at, message, line === undefined ? {} : { line })
    return undefined
  }
}

function checkedSchema(schema: JsonSchema, { source, at, problems }: SourcePlace): ItemSchema | undefined {
  try {
    return compileSchema(schema)
  } catch (error) {
    reporter(source, problems)(at, (error as Error).message, { code: 'schema_invalid' })
    return undefined
  }
}

function catalogueOf(compiled: readonly CompiledPrompt[]): Catalogue {
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
