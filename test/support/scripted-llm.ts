// A model in this process that says what its script says, call by call, and remembers what it was asked.
import { setImmediate as turn } from 'node:timers/promises'
import type { GraphmillError } from '../../src/errors.ts'
import type { CompletionEvent, CompletionRequest, FinishReason, Llm, Usage } from '../../src/llm/llm.ts'

export interface ScriptedReply {
  /** The reply; deltas of four characters are made of it unless `pieces` says them. */
  readonly text?: string
  readonly pieces?: readonly string[]
  readonly reasoning?: string
  /** Default `stop`. */
  readonly finish?: FinishReason
  /** Only so many characters of `text`, and then `length`. */
  readonly cutAt?: number
  /** Default: 10 and a quarter of the characters. */
  readonly usage?: Usage
  /** Thrown behind the text. */
  readonly error?: GraphmillError
}

export type Script =
  | readonly (string | ScriptedReply)[]
  | ((request: CompletionRequest, call: number) => string | ScriptedReply)

export interface ScriptedLlm extends Llm {
  readonly requests: CompletionRequest[]
  /** Calls that were given up before their end. */
  readonly cancelled: number
}

export interface ScriptOptions {
  readonly constrains?: boolean
  readonly jsonFormat?: Llm['jsonFormat']
  /** Deltas come some turns of the event loop apart, as from a slow model. Default: all at once. */
  readonly slow?: boolean
}

/** A list answers the 1st, 2nd, … call, its last entry all that follow. */
export function scriptedLlm(
  script: Script,
  { constrains = false, jsonFormat, slow = false }: ScriptOptions = {},
): ScriptedLlm {
  const requests: CompletionRequest[] = []
  let cancelled = 0
  const answer = (request: CompletionRequest) => {
    const said =
      typeof script === 'function'
        ? script(request, requests.length)
        : script[Math.min(requests.length, script.length) - 1]!
    return typeof said === 'string' ? { text: said } : said
  }
  return {
    provider: 'openai',
    ...(jsonFormat !== undefined && { jsonFormat }),
    model: 'scripted',
    destination: 'in this test',
    circuit: 'llm:scripted',
    requests,
    get cancelled() {
      return cancelled
    },
    async *stream(request, signal): AsyncGenerator<CompletionEvent> {
      requests.push(request)
      const reply: ScriptedReply = answer(request)
      let over = false
      try {
        if (reply.reasoning) yield { type: 'delta', kind: 'reasoning', text: reply.reasoning }
        const text = reply.pieces?.join('') ?? (reply.text ?? '').slice(0, reply.cutAt)
        for (const piece of reply.pieces ?? text.match(/[\s\S]{1,4}/g) ?? []) {
          for (let turns = slow ? 3 : 0; turns > 0; turns--) await turn()
          signal.throwIfAborted()
          yield { type: 'delta', kind: 'content', text: piece }
        }
        if (reply.error) throw reply.error
        const finishReason = reply.finish ?? (reply.cutAt === undefined ? 'stop' : 'length')
        const tokens = Math.ceil(text.length / 4)
        const usage = reply.usage ?? { promptTokens: 10, completionTokens: tokens, totalTokens: 10 + tokens }
        over = true
        yield { type: 'end', finishReason, usage, model: 'scripted-1', raw: {} }
      } finally {
        if (!over && !reply.error) cancelled++
      }
    },
    constrains: async () => constrains,
    async ready() {},
  }
}
