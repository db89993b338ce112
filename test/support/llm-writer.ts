// Writes a reply of the scripted model server as OpenAI and llama.cpp do: an event stream with a role delta, content deltas,
// a finish delta, a usage chunk and [DONE]; or one JSON body.
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Reply } from './llm-script.ts'

export interface ChatBody {
  readonly model?: string
  readonly messages: readonly { readonly role: string; readonly content: unknown }[]
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly max_tokens?: number
  readonly max_completion_tokens?: number
  readonly [key: string]: unknown
}

export interface Writing {
  readonly body: ChatBody
  readonly reply: Reply
  readonly response: ServerResponse
  readonly tokensPerSecond?: number
  /** Aborted when the client is gone. */
  readonly signal: AbortSignal
}

/** Characters of one write to the socket, about. */
const blockSize = 64 * 1024

export async function writeStream(writing: Writing): Promise<void> {
  const { body, reply, response, signal } = writing
  const event = eventOf(body)
  const limit = limitOf(body, reply)
  const stopAt = reply.refuse ? (reply.refuseAfter ?? Math.ceil(countTokens(reply) / 2)) : limit
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' })
  let block = event({ role: 'assistant', content: null })
  let sent = 0
  let cut = false
  const begun = performance.now()
  for (const delta of deltas(reply)) {
    if (sent === stopAt) {
      cut = true
      break
    }
    if (writing.tokensPerSecond) {
      const due = begun + ((sent + 1) * 1000) / writing.tokensPerSecond
      const wait = due - performance.now()
      if (wait > 0) {
        await flush()
        await pause(wait, undefined, { signal })
      }
    }
    block += event(delta)
    sent += 1
    if (block.length > blockSize) await flush()
  }
  if (reply.refuse) return spoil()
  block += event({}, reply.finish ?? (cut ? 'length' : 'stop'))
  const usage = usageOf(body, reply, sent)
  if (body.stream_options?.include_usage && usage !== undefined) block += event(undefined, null, usage)
  response.end(`${block}data: [DONE]\n\n`)

  async function flush(): Promise<void> {
    const full = !response.write(block)
    block = ''
    if (full) await once(response, 'drain', { signal })
  }

  async function spoil(): Promise<void> {
    if (reply.refuse === 'eof') return void response.end(block)
    if (reply.refuse === 'stream-error')
      block += `data: ${JSON.stringify({ error: { message: 'The engine died.', type: 'server_error', code: 500 } })}\n\n`
    if (reply.refuse === 'stream-error') return void response.end(block)
    // What was written must have left before the connection is cut, or the client would see nothing of it.
    if (block) await new Promise((resolve) => response.write(block, resolve))
    if (reply.refuse === 'cut') response.destroy()
  }
}

export async function writeWhole(writing: Writing): Promise<void> {
  const { body, reply, response, signal, tokensPerSecond } = writing
  const limit = limitOf(body, reply)
  const tokens = [...deltas(reply)]
  const kept = tokens.slice(0, limit)
  if (reply.refuse === 'stall') return
  if (reply.refuse) return void response.destroy()
  if (tokensPerSecond) await pause((kept.length * 1000) / tokensPerSecond, undefined, { signal })
  const message = { role: 'assistant', content: joined(kept, 'content') }
  const reasoning = joined(kept, 'reasoning_content')
  const choice = {
    index: 0,
    message: reasoning ? { ...message, reasoning_content: reasoning } : message,
    finish_reason: reply.finish ?? (kept.length < tokens.length ? 'length' : 'stop'),
    logprobs: null,
  }
  const usage = usageOf(body, reply, kept.length)
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(
    JSON.stringify({
      id: 'chatcmpl-test',
      object: 'chat.completion',
      created: 0,
      model: body.model ?? 'test-model',
      choices: [choice],
      ...(usage === undefined ? {} : { usage }),
    }),
  )
}

/** Prompt and reply in tokens of 4 characters, as the limits per minute count them. */
export function tokensOf(body: ChatBody, reply: Reply): number {
  return promptTokens(body) + Math.min(countTokens(reply), limitOf(body, reply))
}

function promptTokens(body: ChatBody): number {
  let characters = 0
  for (const { content } of body.messages)
    characters += typeof content === 'string' ? content.length : JSON.stringify(content).length
  return Math.ceil(characters / 4)
}

function limitOf(body: ChatBody, reply: Reply): number {
  const limits = [reply.truncateAfter, body.max_tokens, body.max_completion_tokens]
  return Math.min(...limits.map((limit) => limit ?? Number.POSITIVE_INFINITY))
}

type Delta = { readonly content?: string; readonly reasoning_content?: string }

function* deltas(reply: Reply): Generator<Delta> {
  for (const piece of tokens(reply.reasoning ?? '')) yield { reasoning_content: piece }
  for (let n = 0; n < (reply.repeat ?? 1); n++)
    for (const piece of reply.pieces ?? tokens(reply.text ?? '')) yield { content: piece }
}

function countTokens(reply: Reply): number {
  const once = reply.pieces?.length ?? Math.ceil((reply.text ?? '').length / 4)
  return Math.ceil((reply.reasoning ?? '').length / 4) + once * (reply.repeat ?? 1)
}

/** Pieces of 4 characters; a surrogate pair stays whole. */
function* tokens(text: string): Generator<string> {
  for (let at = 0; at < text.length; ) {
    let end = Math.min(at + 4, text.length)
    const code = text.charCodeAt(end - 1)
    if (code >= 0xd800 && code < 0xdc00 && end < text.length) end += 1
    yield text.slice(at, end)
    at = end
  }
}

function joined(kept: readonly Delta[], field: keyof Delta): string {
  return kept.map((delta) => delta[field] ?? '').join('')
}

function usageOf(body: ChatBody, reply: Reply, completion: number): unknown {
  if (reply.usage === false) return undefined
  const prompt = promptTokens(body)
  return (
    reply.usage ?? { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  )
}

function eventOf(body: ChatBody) {
  const head = JSON.stringify({
    id: 'chatcmpl-test',
    object: 'chat.completion.chunk',
    created: 0,
    model: body.model ?? 'test-model',
  }).slice(0, -1)
  return (delta?: object, finish: string | null = null, usage?: unknown): string => {
    const choices = delta ? [{ index: 0, delta, finish_reason: finish }] : []
    const tail = usage === undefined ? '' : `,"usage":${JSON.stringify(usage)}`
    return `data: ${head},"choices":${JSON.stringify(choices)}${tail}}\n\n`
  }
}
