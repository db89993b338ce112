// A reply of 50 items, cut at every byte, in every mode: what was complete before the cut is there, nothing else is, and with a
// server that continues properly all of it. The model is in this process, and sends the bytes that a server would.
import { expect, it } from 'vitest'
import { type AnswerMode, answerModes } from '../../../src/config/models.ts'
import { toGraphmillError } from '../../../src/errors.ts'
import type { CompletionRequest } from '../../../src/llm/llm.ts'
import { askAll, itemSchema, testPrompt } from '../../support/asking.ts'
import { type ScriptedReply, scriptedLlm } from '../../support/scripted-llm.ts'

const count = 50
/** With all that a reader might stumble over: quotes, braces, escapes, and characters of two, three and four bytes. */
const items = Array.from({ length: count }, (_, n) => ({ e: `é${n}`, d: '"}{[\\🌾' }))
const texts = items.map((item) => JSON.stringify(item))

/** A way to write items. */
interface Form {
  readonly before: string
  readonly between: string
  readonly after: string
}

const lines: Form = { before: '', between: '\n', after: '\n' }
const list: Form = { before: '{"items": [', between: ', ', after: ']}' }
const forms: Readonly<Record<AnswerMode, Form>> = {
  auto: lines,
  'text-based': lines,
  fallback: lines,
  native: list,
  openai: list,
  ollama: list,
  openai_oo: list,
  ollama_oo: list,
}

const write = ({ before, between, after }: Form, from = 0) => before + texts.slice(from).join(between) + after

/** The first `at` bytes of a text; half a character is what decoders make of it. */
const cutBytes = (bytes: Buffer, at: number) => bytes.subarray(0, at).toString()

/** Behind how many bytes each item is complete. */
function endsOf({ before, between }: Form): number[] {
  let at = Buffer.byteLength(before)
  return texts.map((text) => {
    at += Buffer.byteLength(text) + between.length
    return at - between.length
  })
}

/** What a run gave, as JSON text: of an error its code. */
async function given(asking: ReturnType<typeof askAll>): Promise<string> {
  try {
    const { items: found } = await asking
    return JSON.stringify(found)
  } catch (thrown) {
    return toGraphmillError(thrown).code
  }
}

const first = (complete: number) => JSON.stringify(items.slice(0, complete))

it.each(answerModes)('has all of it when the server continues properly: %s', async (mode) => {
  const form = forms[mode]
  const prompt = testPrompt({ jsonSchema: itemSchema, outputMode: mode })
  const bytes = Buffer.from(write(form))
  const ends = endsOf(form)
  const wrong: number[] = []
  for (let at = 1; at <= bytes.length; at++) {
    const complete = ends.filter((end) => end <= at).length
    const cut: ScriptedReply = { pieces: [cutBytes(bytes, at)], finish: 'length' }
    // What was found is shown to the model that is to go on: neither less than was complete, nor anything else.
    const rest = ({ messages }: CompletionRequest): ScriptedReply => {
      const shown = messages.findLast(({ role }) => role === 'assistant')?.content
      const due = complete === 0 ? undefined : texts.slice(0, complete)
      if (shown?.replace(/^\{"items": \[|\]\}$/g, '') !== due?.join(form.between)) wrong.push(at)
      return { pieces: [complete === count ? form.before + form.after : write(form, complete)] }
    }
    const llm = scriptedLlm((request, call) => (call === 1 ? cut : rest(request)))
    if ((await given(askAll(llm, { prompt }))) !== first(count)) wrong.push(at)
    if (llm.requests.length !== 2) wrong.push(at)
  }
  expect(wrong).toEqual([])
})

it.each(['text-based', 'native'] as const)('keeps what is complete, and nothing else: %s', async (mode) => {
  const form = forms[mode]
  const prompt = testPrompt({ jsonSchema: itemSchema, outputMode: mode, maxContinuations: 0 })
  const bytes = Buffer.from(write(form))
  const ends = endsOf(form)
  const wrong: number[] = []
  for (let at = 0; at <= bytes.length; at++) {
    const llm = scriptedLlm([{ pieces: [cutBytes(bytes, at)], finish: 'length' }])
    const complete = ends.filter((end) => end <= at).length
    const found = await given(askAll(llm, { prompt }))
    if (found !== (complete === 0 ? 'item_too_long' : first(complete))) wrong.push(at)
  }
  expect(wrong).toEqual([])
})

it('loses a json array to any cut; the same cut costs a jsonl prompt one item at most', async () => {
  // Each cut reads all before it: a third of the items costs a ninth of the time, and is cut in the same places of an item.
  const few = items.slice(0, 17)
  const array = Buffer.from(JSON.stringify(few))
  const ends = endsOf({ before: '[', between: ',', after: ']' }).slice(0, few.length)
  const json = testPrompt({ responseType: 'json', jsonSchema: { type: 'array', items: itemSchema } })
  const jsonl = testPrompt({ jsonSchema: itemSchema, maxContinuations: 0 })
  const wrong: number[] = []
  for (let at = 0; at < array.length; at++) {
    const reply = { pieces: [cutBytes(array, at)], finish: 'length' } as const
    if ((await given(askAll(scriptedLlm([reply]), { prompt: json }))) !== 'reply_not_json') wrong.push(at)
    const complete = ends.filter((end) => end <= at).length
    const found = await given(askAll(scriptedLlm([reply]), { prompt: jsonl }))
    if (found !== (complete === 0 ? 'item_too_long' : first(complete))) wrong.push(at)
  }
  expect(wrong).toEqual([])
  const { items: found } = await askAll(scriptedLlm([{ pieces: [array.toString()] }]), { prompt: json })
  expect(found).toEqual(few)
})
