// The prompts in use: the built-in ones, overridden by those of the user, later files first. Loading reads and compiles
// everything before it gives a catalogue, or gives none, so that a reload can swap one for the other.

import type { InputFile } from '../../input-file.ts'
import { compileSchema, type ItemSchema } from '../../items/validate.ts'
import type { JsonSchema } from '../../llm/llm.ts'
import type { Dialect } from '../template/dialect.ts'
import { compileTemplate, type Template } from '../template/template.ts'
import { TemplateFault } from '../template/tree.ts'
import type { PromptDefinition, SystemDefinition } from './definition.ts'
import { mergePrompts, type PlacedDefinition, type PromptSources, readLayers } from './layer.ts'
import { type Problem, throwProblems } from './problem.ts'
import { type Catalogue, catalogueOf, type Prompt } from './prompt.ts'
import { type KeyPath, reporter, type Source } from './source.ts'
import { overrideTerms, type Terms } from './terms.ts'

/**
 * The built-in prompts and, over them, those of `paths`: files or folders, a later one over an earlier one, id by id.
 * A file holds one prompt (its name is the id), the system template (`system.yaml`), or TrustGraph's whole configuration. With
 * `instead`, such a configuration, there are no built-in prompts.
 *
 * @throws GraphmillError with the first problem's code and place, all of them in `details.problems`
 */
export async function loadCatalogue(paths: readonly string[] = [], instead?: InputFile): Promise<Catalogue> {
  const { catalogue, problems } = await readCatalogue({ paths, instead })
  throwProblems(problems)
  return catalogue
}

export interface CompiledPrompt {
  readonly prompt: Prompt
  readonly aliases: readonly string[]
  readonly source: Source
  readonly at: KeyPath
}

/** The catalogue of what compiles, and everything that is wrong with the rest. */
export async function readCatalogue(sources: PromptSources) {
  const problems: Problem[] = []
  const layers = await readLayers(sources, problems)
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
    types: schema?.types ?? [],
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
