// Checks a prompt by worked examples: each of its own renders, and each reply gives the items that it says, which fit the schema;
// in place of a built-in one it renders the examples of that.

import { isDeepStrictEqual } from 'node:util'
import type { Prompt } from './catalogue.ts'
import type { PromptExample } from './definition.ts'

/** What is wrong with the example, a sentence each. */
export function checkExample(prompt: Prompt, example: PromptExample): string[] {
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

/** What keeps a prompt from serving the extractor of the built-in one whose id it has: the terms that come, the items that must. */
export function checkInPlaceOf(builtIn: Prompt, prompt: Prompt): string[] {
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
  const parsed = lines?.map(parse)
  const broken = parsed?.indexOf(undefined) ?? -1
  if (broken >= 0) return [`line ${broken + 1} of the reply is not JSON`]
  if (parsed !== undefined && items !== undefined && !isDeepStrictEqual(parsed, items))
    return ['the reply does not hold the items']
  return (items ?? parsed ?? []).flatMap((item, index) => failures(prompt, item, `item ${index + 1}`))
}

function checkValue(prompt: Prompt, { reply, value }: PromptExample): string[] {
  const parsed = reply === undefined ? value : parse(reply)
  if (reply !== undefined && parsed === undefined) return ['the reply is not JSON']
  if (value !== undefined && !isDeepStrictEqual(parsed, value)) return ['the reply does not hold the value']
  return parsed === undefined ? [] : failures(prompt, parsed, 'the value')
}

function failures(prompt: Prompt, value: unknown, name: string): string[] {
  const failure = prompt.schema?.check(value)
  return failure === undefined ? [] : [`${name} fails the schema: ${failure}`]
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
