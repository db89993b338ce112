// Thoughts are no facts, however a model or its server marks them.
import { describe, expect, test } from 'vitest'
import { createItemsParser } from '../../src/items/parser.ts'
import { answerStart } from '../../src/items/thinking-markers.ts'
import { compileSchema } from '../../src/items/validate.ts'
import { feed, itemSchema, piecesOf, valuesOf } from './replies.ts'

const schema = compileSchema(itemSchema)
const draft = '{"e":"draft","d":"0"}'
const a = '{"e":"a","d":"1"}'
const A = { e: 'a', d: '1' }

/** What the parser finds, the same in every split. */
function find(text: string) {
  const whole = feed(createItemsParser(schema), [text])
  for (const size of [1, 2, 7]) {
    expect(feed(createItemsParser(schema), piecesOf(text, size))).toStrictEqual(whole)
  }
  return { items: valuesOf(whole), ...whole.end }
}

const marked: Readonly<Record<string, (thought: string) => string>> = {
  think: (thought) => `<think>${thought}</think>`,
  'think in capitals': (thought) => `<THINK>\n${thought}\n</Think >\n`,
  'think with attributes': (thought) => `<think effort="high">${thought}</think>`,
  'thinking that the wrong tag of its kind ends': (thought) => `<thinking>${thought}</think>`,
  thought: (thought) => `<thought>\n${thought}</thought>`,
  reasoning: (thought) => `<reasoning>${thought}</reasoning>`,
  reflection: (thought) => `<reflection>${thought}</reflection>`,
  scratchpad: (thought) => `<scratchpad>\n${thought}\n</scratchpad>`,
  analysis: (thought) => `<analysis>${thought}</analysis>`,
  'inner monologue': (thought) => `<inner_monologue>${thought}</inner_monologue>`,
  'a thought in a thought': (thought) =>
    `<thinking>${thought}<reflection>${thought}</reflection>${thought}</thinking>`,
  'Seed-OSS': (thought) =>
    `<seed:think>${thought}<seed:cot_budget_reflect>128 left</seed:cot_budget_reflect>${thought}</seed:think>`,
  Magistral: (thought) => `[THINK]${thought}[/THINK]`,
  Kimi: (thought) => `◁think▷${thought}◁/think▷`,
  OpenThinker: (thought) => `<|begin_of_thought|>${thought}<|end_of_thought|>\n<|begin_of_solution|>`,
  'OpenThinker without an end': (thought) => `<|begin_of_thought|>${thought}<|begin_of_solution|>`,
  Cohere: (thought) => `<|START_THINKING|>${thought}<|END_THINKING|><|START_RESPONSE|>`,
  Step: (thought) => `<|THINK_START|>${thought}<|THINK_END|>`,
  Apertus: (thought) => `<|inner_prefix|>${thought}<|inner_suffix|>`,
  Solar: (thought) => `<|think|>${thought}<|end|><|begin|>assistant<|content|>`,
  'HyperCLOVA X': (thought) => `<|im_start|>assistant/think\n${thought}<|im_end|>\n<|im_start|>assistant\n`,
  Gemma: (thought) => `<|channel>thought\n${thought}<channel|>`,
  harmony: (thought) =>
    `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant<|channel|>final<|message|>`,
  'harmony with commentary': (thought) =>
    `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant<|channel|>commentary<|message|>${thought}<|end|>` +
    '<|start|>assistant<|channel|>final <|constrain|>json<|message|>',
  'harmony without the token between two channels': (thought) =>
    `<|channel|>analysis<|message|>${thought}<|channel|>final<|message|>`,
  'harmony that calls a tool': (thought) =>
    `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant<|channel|>commentary to=functions.emit <|constrain|>json<|message|>`,
  'harmony that names the tool before the channel': (thought) =>
    `<|channel|>analysis<|message|>${thought}<|end|><|start|>assistant to=functions.emit<|channel|>commentary json<|message|>`,
  'harmony without its tokens': (thought) => `analysisWe need facts. ${thought} Done.assistantfinal`,
  'Granite 3.2': (thought) => `Here is my thought process:\n${thought}\nHere is my response:\n`,
  'ollama run': (thought) => `Thinking...\n${thought}\n...done thinking.\n\n`,
  'Open WebUI': (thought) =>
    `<details type="reasoning" done="true">\n<summary>Thought</summary>\n${thought}\n</details>\n`,
}

describe.each(Object.entries(marked))('a thought marked as %s', (_, mark) => {
  test('gives no facts, and what follows it does', () => {
    expect(find(`${mark(`Is ${draft} one? [{ "`)}${a}`)).toMatchObject({ items: [A], truncated: false })
    expect(find(`${mark('')}\n\`\`\`json\n[${a}]\n\`\`\``).items).toStrictEqual([A])
  })

  test('gives no facts at any cut, and a cut inside it shows', () => {
    const text = mark(`Is ${draft} one?`)
    const begun = text.indexOf('one?')
    for (let end = 0; end <= text.length; end++) {
      const { items, truncated, empty } = find(text.slice(0, end))
      expect(items).toStrictEqual([])
      if (end >= begun) expect(empty).toBe(false)
      if (end === begun) expect(truncated).toBe(true)
    }
  })

  test('is no part of a json reply', () => {
    const text = mark(`Is ${draft} one?`)
    expect(`${text}${a}`.slice(answerStart(`${text}${a}`))).toBe(a)
  })
})

describe('a mark', () => {
  test.each([
    `{"e":"<think>","d":"</think> [THINK] ◁think▷ <|channel|>analysis<|message|>"}`,
    `{"e": "<|channel|>final<|message|>", 'd': '<scratchpad>'}`,
  ])('in a string of a record is text: %s', (text) => {
    expect(find(`${text}\n${a}`).items).toHaveLength(2)
  })

  test('that closes itself opens nothing', () => {
    expect(find(`<think/>\n<think />\n${a}`).items).toStrictEqual([A])
  })

  test.each([
    ['</think>', 1],
    ['[/THINK]', 1],
    ['◁/think▷', 1],
    ['<|END_THINKING|>', 1],
    ['</seed:think>', 1],
    ['<|end|><|start|>assistant<|channel|>final<|message|>', 1],
    ['<|end|>', 0],
    ['<|im_end|>', 0],
  ])('%s without its beginning says how many events were thoughts: %i', (mark, items) => {
    const parser = createItemsParser(schema)
    feed(parser, piecesOf(`Perhaps ${draft}${mark}${a}`, 3))
    expect(parser.thoughts).toStrictEqual({ items, rejected: 0 })
  })

  test('in plain words counts only where the reply begins', () => {
    expect(find(`Thinking...\n${draft}`)).toMatchObject({ items: [], truncated: true })
    expect(find(`I am thinking... ${a}`).items).toStrictEqual([A])
    expect(find(`analysis of the text: ${a}`).items).toStrictEqual([A])
    expect(find(`Analysis\n${a}`).items).toStrictEqual([A])
  })
})

describe('a reply that is only a thought', () => {
  test.each([
    `<think>There is ${draft}.</think>`,
    `<|channel|>analysis<|message|>${draft}<|end|>`,
    `There is ${draft}.</think>\n`,
  ])('is not honestly empty: %s', (text) => {
    expect(find(text).empty).toBe(false)
    expect(find(`${text}[]`).empty).toBe(true)
  })
})
