// The signature of a context: a processor's request carries it, and its reply brings it back. With a key, a reply counts only
// when a processor with that key has asked for it. HMAC-SHA-256 over what both have, so that equal requests have equal signatures.
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { GraphmillError } from '../errors.ts'
import type { Header, Message } from '../messages/envelope.ts'
import type { PromptRequestInit } from '../messages/generated.ts'

/** The entry of a context that holds the signature, of 66 characters. */
export const signatureName = 'graphmill-signature'

/** In place of a key: a context without a signature is taken, too. */
const unsigned = 'unsigned'
/** Of a key, in characters. */
const leastLength = 16

type Context = Readonly<Record<string, string>>
/** What request and reply both say of themselves. */
type Place = Pick<
  Header,
  'workspace' | 'flow' | 'collection' | 'documentId' | 'chunkId' | 'correlationId'
> & { readonly replyTo: string }

export interface ContextSigner {
  /** The context of a request with its signature; the same context where no key is configured. */
  sign(request: PromptRequestInit, place: Place): Context
  /**
   * Whether a processor with a key that counts has written the context, for this request or reply. True where no key is
   * configured. `replyTo` is the topic of the reply.
   */
  accepts(message: Message<'PromptRequest' | 'PromptResponse'>, replyTo: string): boolean
}

/** What `--context-key` holds: the first key signs, and all of them count. */
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

/** `read` gives the configured text at each use, since its file may change; one that is no list of keys changes nothing. */
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
    sign(request, place) {
      const { context = {} } = request
      const [key] = current()?.keys ?? []
      if (key === undefined) return context
      const asked = digestOf(request)
      return { ...context, [signatureName]: `${asked}.${macOf(key, { asked, context, place })}` }
    },
    accepts(message, replyTo) {
      const known = current()
      if (known === undefined) return true
      const { context } = message.payload
      const signature = context[signatureName]
      if (signature === undefined) return known.takesUnsigned
      const [asked = '', mac = ''] = signature.split('.')
      const place = { ...message, replyTo }
      return known.keys.some((key) => equal(mac, macOf(key, { asked, context, place })))
    },
  }
}

/** Whether the signature of a request, if there is one, is of what the request asks: a signed context can't be used twice. */
export function isOfRequest({ payload }: Message<'PromptRequest'>): boolean {
  const signature = payload.context[signatureName]
  return signature === undefined || equal(signature.split('.')[0]!, digestOf(payload))
}

/** The reply does not repeat what was asked: the prompt processor compares this digest, which the signature covers. */
function digestOf({ promptId, terms, streaming = false }: PromptRequestInit): string {
  const asked = JSON.stringify([promptId, streaming, sorted(terms)])
  return createHash('sha256').update(asked).digest().subarray(0, 16).toString('base64url')
}

interface Signed {
  readonly asked: string
  readonly context: Context
  readonly place: Place
}

function macOf(key: string, { asked, context, place }: Signed): string {
  const { workspace, flow, collection, documentId, chunkId, correlationId, replyTo } = place
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
