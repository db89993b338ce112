// The signature of a context: a processor's request carries it, and the reply brings it back. With a key, a reply counts only when a
// processor with that key sent the request. HMAC-SHA-256 over what request and reply have in common, so that equal requests have equal
// signatures.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { PromptRequestInit } from '../messages/generated.ts'

/** The entry of a context that holds the signature: 66 characters. */
export const signatureName = 'graphmill-signature'

/** In place of a key: contexts without a signature are accepted, too. */
const unsigned = 'unsigned'
/** The shortest key, in characters. */
const leastLength = 16

type Context = Readonly<Record<string, string>>
/** The header fields that a request and its reply have in common. */
type SharedFields = Pick<
  Header,
  'workspace' | 'flow' | 'collection' | 'documentId' | 'chunkId' | 'correlationId'
> & { readonly replyTo: string }

export interface ContextSigner {
  /** The context of a request with its signature; the same context when no key is configured. */
  sign(request: PromptRequestInit, fields: SharedFields): Context
  /**
   * Whether a processor with a valid key wrote the context, for this request or reply. True when no key is configured. `replyTo` is
   * the topic of the reply.
   */
  accepts(message: Message<'PromptRequest' | 'PromptResponse'>, replyTo: string): boolean
}

/** The value of `--context-key`: the first key signs, and all of them are valid. */
interface Keys {
  readonly text: string
  readonly keys: readonly string[]
  readonly takesUnsigned: boolean
}

/** The keys of a text `KEY[,KEY…][,unsigned]`. Throws `configuration_invalid`. */
export function readContextKeys(text: string): Keys {
  const parts = text.split(',').map((part) => part.trim())
  const keys = parts.filter((part) => part !== unsigned)
  if (keys.length === 0 || keys.some((key) => key.length < leastLength))
    throw new GraphmillError(
      'configuration_invalid',
      `context-key must hold keys of at least ${leastLength} characters, separated by commas.`,
    )
  return { text, keys, takesUnsigned: keys.length < parts.length }
}

/** `read` returns the configured text at each use, since its file may change. A text that is no list of keys is ignored. Default: no key. */
export function createContextSigner(read: () => string | undefined = () => undefined): ContextSigner {
  let last: Keys | undefined

  function current(): Keys | undefined {
    const text = read()
    if (text === undefined || text === last?.text) return last
    try {
      last = readContextKeys(text)
    } catch (thrown) {
      if (last === undefined) throw thrown
    }
    return last
  }

  return {
    sign(request, fields) {
      const { context = {} } = request
      const [key] = current()?.keys ?? []
      if (key === undefined) return context
      const asked = digestOf(request)
      return { ...context, [signatureName]: `${asked}.${macOf(key, { asked, context, fields })}` }
    },
    accepts(message, replyTo) {
      const known = current()
      if (known === undefined) return true
      const { context } = message.payload
      const signature = context[signatureName]
      if (signature === undefined) return known.takesUnsigned
      const [asked = '', mac = ''] = signature.split('.')
      const fields = { ...message, replyTo }
      return known.keys.some((key) => equal(mac, macOf(key, { asked, context, fields })))
    },
  }
}

/** Whether the signature of a request, if there is one, is for this request: a signed context can't be used for another. */
export function isOfRequest({ payload }: Message<'PromptRequest'>): boolean {
  const signature = payload.context[signatureName]
  return signature === undefined || equal(signature.split('.')[0]!, digestOf(payload))
}

/** The reply does not repeat the request: the signature covers this digest, and the prompt processor compares it with the request. */
function digestOf({ promptId, terms, streaming = false }: PromptRequestInit): string {
  const asked = JSON.stringify([promptId, streaming, sorted(terms)])
  return createHash('sha256').update(asked).digest().subarray(0, 16).toString('base64url')
}

interface Signed {
  readonly asked: string
  readonly context: Context
  readonly fields: SharedFields
}

function macOf(key: string, { asked, context, fields }: Signed): string {
  const { workspace, flow, collection, documentId, chunkId, correlationId, replyTo } = fields
  const entries = sorted(context).filter(([name]) => name !== signatureName)
  const covered = [asked, workspace, flow, collection, documentId, chunkId, correlationId, replyTo, entries]
  return createHmac('sha256', key).update(JSON.stringify(covered)).digest('base64url')
}

const sorted = (map: Readonly<Record<string, string>>) =>
  Object.entries(map).sort(([one], [other]) => (one < other ? -1 : 1))

function equal(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}
