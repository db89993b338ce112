// The id of a request of ours on TrustGraph's topics: `gm1.<receiver>.<base64url of JSON>`. Whatever answers, repeats the id and nothing
// else, so it holds all that the reply must bring back.
import { GraphmillError } from '../errors.ts'
import { isObject } from '../is-object.ts'
import { jsonValue } from '../json-value.ts'
import type { Header } from '../messages/envelope.ts'

/** What a request and its reply have in common. */
export interface Asked {
  readonly header: Pick<Header, 'correlationId' | 'collection' | 'documentId' | 'chunkId' | 'deadline'>
  readonly promptId: string
  readonly context: Readonly<Record<string, string>>
}

const form = /^gm1\.([a-z0-9-]+)\.([\w-]+)$/

/** The processor that reads the reply to this id; undefined for an id that is none of ours. */
export function receiverOf(id: string): string | undefined {
  return form.exec(id)?.[1]
}

export function writeRequestId(receiver: string, { header, promptId, context }: Asked): string {
  const { correlationId: id, collection, documentId, chunkId, deadline } = header
  const fields = { id, prompt: promptId, collection, document: documentId, chunk: chunkId }
  const json = JSON.stringify({ ...fields, deadline, context })
  return `gm1.${receiver}.${Buffer.from(json).toString('base64url')}`
}

/** What an id says; undefined for an id that is none of ours. Throws `bytes_undecodable` when it is one and can't be read. */
export function readRequestId(id: string): Asked | undefined {
  const [, , encoded] = form.exec(id) ?? []
  if (encoded === undefined) return undefined
  const fields = jsonValue(Buffer.from(encoded, 'base64url').toString())
  if (!isObject(fields)) throw new GraphmillError('bytes_undecodable', 'The id of the request is cut off.')
  const text = (name: string) => (typeof fields[name] === 'string' ? fields[name] : '')
  const { deadline, context } = fields
  return {
    header: {
      correlationId: text('id'),
      collection: text('collection'),
      documentId: text('document'),
      chunkId: text('chunk'),
      deadline: Number.isSafeInteger(deadline) ? (deadline as number) : null,
    },
    promptId: text('prompt'),
    context: isObject(context) ? textsOf(context) : {},
  }
}

const textsOf = (map: Readonly<Record<string, unknown>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(map).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  )
