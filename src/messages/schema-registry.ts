// A client of a schema registry that speaks Confluent's API (Confluent, Karapace, Apicurio): what is written is registered,
// and the schema behind an id is looked up. Subjects are the names of the records.
import { GraphmillError } from '../errors.ts'
import type { ComposedSchema } from './wire.ts'

export interface SchemaRegistry {
  /** The id of a schema, which is registered where it is new. Throws `registry_unavailable`, `registry_refused`. */
  register(schema: ComposedSchema, signal: AbortSignal): Promise<number>
  /** The JSON behind an id, whatever it is; undefined when the registry has none. Throws `bytes_undecodable` for what is no JSON. */
  find(id: number, signal: AbortSignal): Promise<unknown>
}

const mediaType = 'application/vnd.schemaregistry.v1+json'
const timeoutMs = 10_000
/** The most that is read of an answer. */
const maxAnswerBytes = 1024 * 1024

/** `url` may hold a user and password. Throws `configuration_invalid` for one that is none. */
export function createSchemaRegistry(url: string): SchemaRegistry {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new GraphmillError('configuration_invalid', 'schema-registry: it must be an http or https address.')
  const base = new URL(url)
  const { username, password } = base
  base.username = base.password = ''
  const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`).toString(
    'base64',
  )
  const headers = {
    accept: mediaType,
    'content-type': mediaType,
    ...(username && { authorization: `Basic ${credentials}` }),
  }

  async function call(path: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
    const where = `${base.href.replace(/\/$/, '')}${path}`
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    const response = await fetch(where, { ...init, headers, signal: limit }).catch((cause: unknown) => {
      signal.throwIfAborted()
      throw new GraphmillError(
        'registry_unavailable',
        `The schema registry at ${base.host} does not answer.`,
        { cause },
      )
    })
    if (response.status >= 500)
      throw new GraphmillError('registry_unavailable', `The schema registry answers ${response.status}.`)
    return response
  }

  return {
    async register(schema, signal) {
      const subject = encodeURIComponent(`${schema.namespace}.${schema.name}`)
      const body = JSON.stringify({ schemaType: 'AVRO', schema: JSON.stringify(schema) })
      const response = await call(`/subjects/${subject}/versions`, { method: 'POST', body }, signal)
      const answer = await textOf(response)
      if (!response.ok)
        throw new GraphmillError(
          'registry_refused',
          `The registry refused ${schema.name}: ${answer.slice(0, 500)}`,
        )
      return (JSON.parse(answer) as { id: number }).id
    },
    async find(id, signal) {
      const response = await call(`/schemas/ids/${id}`, {}, signal)
      if (response.status === 404) return undefined
      if (!response.ok)
        throw new GraphmillError(
          'registry_refused',
          `The registry answers ${response.status} for schema ${id}.`,
        )
      const answer = await textOf(response)
      try {
        return JSON.parse((JSON.parse(answer) as { schema: string }).schema)
      } catch (cause) {
        throw new GraphmillError('bytes_undecodable', `The registry's schema ${id} is no JSON.`, { cause })
      }
    },
  }
}

/** The body, up to its bound: what is longer, also unpacked, is refused. */
async function textOf({ body }: Response): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body ?? []) {
    size += chunk.byteLength
    if (size > maxAnswerBytes)
      throw new GraphmillError('registry_refused', `The registry's answer is over ${maxAnswerBytes} bytes.`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
