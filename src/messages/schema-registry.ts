// A client of a schema registry with Confluent's API (Confluent, Karapace, Apicurio): it registers the schemas that this process
// writes, and looks up the schema of an id. Subjects are the names of the records.
import { GraphmillError } from '../errors.ts'
import { BodyTooLarge, readText } from '../http/body.ts'
import { parseJson } from '../http/json.ts'
import { movedTo, request } from '../http/request.ts'
import { redactCut } from '../redact.ts'
import type { ComposedSchema } from './wire.ts'

export interface SchemaRegistry {
  /** The id of a schema, which is registered if it is new. Throws `registry_unavailable`, `registry_refused`. */
  register(schema: ComposedSchema, signal: AbortSignal): Promise<number>
  /** The JSON of an id, unchecked; undefined when the registry does not know the id. Throws `bytes_undecodable` when it is not JSON. */
  find(id: number, signal: AbortSignal): Promise<unknown>
}

const mediaType = 'application/vnd.schemaregistry.v1+json'
const timeoutMs = 10_000
/** Bytes of an answer, at most. */
const maxAnswerBytes = 1024 * 1024

/** `url` may hold a user and password. Throws `configuration_invalid` when it is not an http or https address. */
export function createSchemaRegistry(url: string): SchemaRegistry {
  const ask = registryCalls(url)
  return {
    async register(schema, signal) {
      const subject = encodeURIComponent(`${schema.namespace}.${schema.name}`)
      const body = JSON.stringify({ schemaType: 'AVRO', schema: JSON.stringify(schema) })
      const { ok, text } = await ask(`/subjects/${subject}/versions`, { method: 'POST', body }, signal)
      if (!ok)
        throw new GraphmillError(
          'registry_refused',
          `The registry refused ${schema.name}: ${redactCut(text, 500)}`,
        )
      return (parseJson(text) as { id: number }).id
    },
    async find(id, signal) {
      const { ok, status, text } = await ask(`/schemas/ids/${id}`, {}, signal)
      if (status === 404) return undefined
      if (!ok)
        throw new GraphmillError('registry_refused', `The registry answers ${status} for schema ${id}.`)
      try {
        return parseJson((parseJson(text) as { schema: string }).schema)
      } catch (cause) {
        throw new GraphmillError('bytes_undecodable', `The registry's schema ${id} is no JSON.`, { cause })
      }
    },
  }
}

type Ask = (
  path: string,
  init: Pick<RequestInit, 'method' | 'body'>,
  signal: AbortSignal,
) => Promise<{ readonly ok: boolean; readonly status: number; readonly text: string }>

/** Makes calls to the registry. An answer that says that the registry is not there is an error. */
function registryCalls(url: string): Ask {
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new GraphmillError('configuration_invalid', 'schema-registry: it must be an http or https address.')
  const base = new URL(url)
  const { username, password } = base
  base.username = base.password = ''
  const credentials = Buffer.from(`${decodeURIComponent(username)}:${decodeURIComponent(password)}`)
  const headers = {
    accept: mediaType,
    'content-type': mediaType,
    ...(username && { authorization: `Basic ${credentials.toString('base64')}` }),
  }

  async function call(path: string, init: Pick<RequestInit, 'method' | 'body'>, signal: AbortSignal) {
    const where = `${base.href.replace(/\/$/, '')}${path}`
    const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
    try {
      const response = await request(where, { ...init, headers, signal: limit })
      const { ok, status } = response
      return { ok, status, moved: movedTo(response), text: await readText(response.body, maxAnswerBytes) }
    } catch (cause) {
      signal.throwIfAborted()
      if (cause instanceof GraphmillError) throw cause
      const [code, what] =
        cause instanceof BodyTooLarge
          ? (['registry_refused', `answers with ${cause.message}`] as const)
          : (['registry_unavailable', 'does not answer'] as const)
      throw new GraphmillError(code, `The schema registry at ${base.host} ${what}.`, { cause })
    }
  }

  return async (path, init, signal) => {
    const { ok, status, moved, text } = await call(path, init, signal)
    if (status >= 500)
      throw new GraphmillError('registry_unavailable', `The schema registry answers ${status}.`)
    if (moved)
      throw new GraphmillError('registry_refused', `The schema registry answers ${status}; ${moved}.`)
    return { ok, status, text }
  }
}
