// Checks a catalogue by its worked examples: each example renders, and its reply holds the items that it says, which fit the
// schema. A prompt that replaces a built-in one must also render the examples of that one.

import { isDeepStrictEqual } from 'node:util'
import { jsonValue } from '../../json-value.ts'
import { readCatalogue } from './catalogue.ts'
import type { PromptExample } from './definition.ts'
import type { Problem } from './problem.ts'
import type { Prompt } from './prompt.ts'
import { reporter } from './source.ts'

/** Everything that is wrong with the prompts and their worked examples, and the ids that were found. */
export async function checkCatalogue(
  paths: readonly string[] = [],
): Promise<{ readonly problems: readonly Problem[]; readonly ids: readonly string[] }> {
  const { compiled, problems } = await readCatalogue({ paths })
  const own = paths.length === 0 ? undefined : (await readCatalogue({ paths: [] })).catalogue
  for (const { prompt, source, at } of compiled) {
    for (const [index, example] of prompt.examples.entries())
      for (const problem of checkExample(prompt, example))
        reporter(source, problems)([...at, 'examples', index], problem)
    if (own?.ids().includes(prompt.id))
      for (const problem of checkInPlaceOf(own.get(prompt.id), prompt))
        reporter(source, problems)(at, problem)
  }
  return { problems, ids: compiled.map(({ prompt }) => prompt.id).sort() }
}

/** What is wrong with the example, one sentence each. */
function checkExample(prompt: Prompt, example: PromptExample): string[] {
  const problems: string[] = []
  try {
    prompt.render(example.terms)
  } catch (error) {
    problems.push((error as Error).message)
  }
  if (prompt.responseType === 'jsonl') problems.push(...checkItems(prompt, example))
  if (prompt.responseType === 'json') problems.push(...checkValue(prompt, example))
  return problems
}

/** What keeps a prompt from replacing a built-in one: it must take the terms that the extractor gives, and give items. */
function checkInPlaceOf(builtIn: Prompt, prompt: Prompt): string[] {
  const problems: string[] = []
  if (builtIn.responseType === 'jsonl' && prompt.responseType === 'text')
    problems.push('its extractor needs items: the response-type must be jsonl, or json for an array of them')
  try {
    for (const { terms } of builtIn.examples) prompt.render(terms)
  } catch (error) {
    problems.push(`${(error as Error).message} (with the terms that its extractor gives)`)
  }
  return problems
}

function checkItems(prompt: Prompt, { reply, items }: PromptExample): string[] {
  const lines = reply?.split('\n').filter((line) => line.trim() !== '')
  const parsed = lines?.map(jsonValue)
  const broken = parsed?.indexOf(undefined) ?? -1
  if (broken >= 0) return [`line ${broken + 1} of the reply is not JSON`]
  if (parsed !== undefined && items !== undefined && !isDeepStrictEqual(parsed, items))
    return ['the reply does not hold the items']
  return (items ?? parsed ?? []).flatMap((item, index) => failures(prompt, item, `item ${index + 1}`))
}

function checkValue(prompt: Prompt, { reply, value }: PromptExample): string[] {
  const parsed = reply === undefined ? value : jsonValue(reply)
  if (reply !== undefined && parsed === undefined) return ['the reply is not JSON']
  if (value !== undefined && !isDeepStrictEqual(parsed, value)) return ['the reply does not hold the value']
  return parsed === undefined ? [] : failures(prompt, parsed, 'the value')
}

function failures(prompt: Prompt, value: unknown, name: string): string[] {
  const failure = prompt.schema?.check(value)
  return failure === undefined ? [] : [`${name} fails the schema: ${failure}`]
}
