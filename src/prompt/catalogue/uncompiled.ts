// The catalogue of a process that asks no model. Its extractors need only the item types of their prompts, so neither templates nor
// validators are compiled, and what compiles them is not loaded.
import { GraphmillError } from '../../errors.ts'
import type { InputFile } from '../../input-file.ts'
import { schemaShape } from '../../items/schema-shape.ts'
import { mergePrompts, readLayers } from './layer.ts'
import { type Problem, throwProblems } from './problem.ts'
import { type Catalogue, catalogueOf } from './prompt.ts'

/** As `loadCatalogue`, but faults in templates and schemas are not found, and `render` throws `prompt_render_failed`. */
export async function loadUncompiled(paths: readonly string[] = [], instead?: InputFile): Promise<Catalogue> {
  const problems: Problem[] = []
  const merged = mergePrompts(await readLayers({ paths, instead }, problems), problems)
  throwProblems(problems)
  return catalogueOf(
    [...merged.values()].map(({ definition, source }) => {
      const {
        prompt: _text,
        dialect: _dialect,
        schema: jsonSchema,
        terms: _terms,
        aliases,
        ...rest
      } = definition
      const types = jsonSchema ? schemaShape(jsonSchema).types : []
      const schema = jsonSchema && { jsonSchema }
      return { aliases, prompt: { ...rest, ...schema, types, file: source.file, render } }
    }),
  )
}

function render(): never {
  throw new GraphmillError('prompt_render_failed', 'This process asks no model, and compiles no prompts.')
}
