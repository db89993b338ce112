// Prompt files as layers of definitions, and the merge of the layers: a later definition replaces an earlier one, id by id.

import { readdir, readFile, stat } from 'node:fs/promises'
import { basename, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { InputFile } from '../../input-file.ts'
import { systemCall } from '../../system-calls.ts'
import { findConfiguration, readConfiguration } from './configuration.ts'
import { type PromptDefinition, readPrompt, readSystem, type SystemDefinition } from './definition.ts'
import type { Problem } from './problem.ts'
import { type KeyPath, parseSource, reporter, type Source } from './source.ts'

/** A definition and its place. */
export interface PlacedDefinition<T> {
  readonly definition: T
  readonly source: Source
  /** The path of a prompt's object, or of the system template's text. */
  readonly at: KeyPath
}

/** What one file or folder holds. */
export interface Layer {
  readonly systems: PlacedDefinition<SystemDefinition>[]
  readonly prompts: PlacedDefinition<PromptDefinition>[]
}

/** Beside `src`, and beside `dist/src`, where the build writes it. */
const builtIn = new URL('../../../prompts/', import.meta.url)

/** Where prompts come from. */
export interface PromptSources {
  /** Files and folders, a later one over an earlier one. */
  readonly paths: readonly string[]
  /** TrustGraph's prompts, which take the place of all built-in ones. */
  readonly instead?: InputFile | undefined
}

/** The built-in prompts or those instead, then those of `paths`; what cannot be read is added to `problems`. */
export async function readLayers({ paths, instead }: PromptSources, problems: Problem[]): Promise<Layer[]> {
  const layers = [
    instead === undefined
      ? await readLayer(fileURLToPath(builtIn), 'prompts', problems)
      : readContent(instead, problems),
  ]
  for (const path of paths) layers.push(await readLayer(path, path, problems))
  return layers
}

function readContent({ path, bytes }: InputFile, problems: Problem[]): Layer {
  const layer: Layer = { systems: [], prompts: [] }
  const source = parseSource(Buffer.from(bytes).toString('utf8'), path, problems)
  if (source !== undefined) readDefinitions(source, layer, problems)
  return layer
}

/** The definitions of a file or folder; what cannot be read is added to `problems`. `shown` is its name in them. */
export async function readLayer(path: string, shown: string, problems: Problem[]): Promise<Layer> {
  const layer: Layer = { systems: [], prompts: [] }
  try {
    for (const { file, name } of await promptFiles(path, shown)) {
      const source = parseSource(
        (await systemCall(`read ${file}`, readFile(file, 'utf8'))).replace(/^\uFEFF/, ''),
        name,
        problems,
      )
      if (source !== undefined) readDefinitions(source, layer, problems)
    }
  } catch (error) {
    const message = `cannot be read: ${(error as Error).message}`
    problems.push({ code: 'configuration_invalid', file: shown, message })
  }
  return layer
}

/** The file itself, or the prompt files of a folder in the order of their names. */
async function promptFiles(path: string, shown: string): Promise<{ file: string; name: string }[]> {
  if (!(await stat(path)).isDirectory()) return [{ file: path, name: shown }]
  const names = (await readdir(path)).filter((name) => /\.(ya?ml|json)$/i.test(name)).sort()
  if (names.length === 0) throw new Error('the folder holds no .yaml, .yml or .json file')
  return names.map((name) => ({ file: join(path, name), name: join(shown, name) }))
}

function readDefinitions(source: Source, { systems, prompts }: Layer, problems: Problem[]): void {
  const report = reporter(source, problems)
  const configuration = findConfiguration(source.value)
  if (configuration !== undefined) {
    const { at } = configuration
    const found = readConfiguration(configuration.value, at, report)
    if (found.system !== undefined) systems.push({ definition: found.system, source, at: [...at, 'system'] })
    for (const definition of found.prompts)
      prompts.push({ definition, source, at: [...at, `template.${definition.id}`] })
    return
  }
  const id = basename(source.file, extname(source.file))
  if (id === 'system') {
    const definition = readSystem(source.value, { at: [], report })
    if (definition !== undefined) systems.push({ definition, source, at: ['prompt'] })
    return
  }
  if (prompts.some((other) => other.definition.id === id))
    report([], `there is another prompt "${id}" beside it`)
  const definition = readPrompt(id, source.value, { at: [], report })
  if (definition !== undefined) prompts.push({ definition, source, at: [] })
}

/**
 * The prompts in use, by id. A prompt whose id is an alias of an earlier prompt replaces that one and keeps its aliases, unless
 * its own layer has a prompt with the id of the earlier one too.
 */
export function mergePrompts(
  layers: readonly Layer[],
  problems: Problem[],
): Map<string, PlacedDefinition<PromptDefinition>> {
  const merged = new Map<string, PlacedDefinition<PromptDefinition>>()
  for (const { prompts } of layers) {
    const own = new Set(prompts.map(({ definition }) => definition.id))
    const earlier = new Map(
      [...merged].flatMap(([id, { definition }]) =>
        own.has(id) ? [] : definition.aliases.map((alias) => [alias, id]),
      ),
    )
    for (const entry of prompts) {
      const id = earlier.get(entry.definition.id) ?? entry.definition.id
      const aliases = [...(merged.get(id)?.definition.aliases ?? []), ...entry.definition.aliases]
      merged.set(id, { ...entry, definition: { ...entry.definition, id, aliases: [...new Set(aliases)] } })
    }
  }
  for (const { definition, source, at } of layers.flatMap(({ prompts }) => prompts)) {
    const isInForce = merged.get(definition.id)?.source === source
    for (const alias of definition.aliases)
      if (isInForce && merged.has(alias))
        reporter(source, problems)([...at, 'aliases'], `"${alias}" is the id of a prompt`)
  }
  return merged
}
