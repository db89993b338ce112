// Azure OpenAI's addresses. Its v1 API has OpenAI's paths. The classic API has the deployment in the path and a version in the
// query. In both the key is in the header `api-key`, and a token of Microsoft Entra in `authorization`.
import type { Secret } from '../../config/secret.ts'
import { GraphmillError } from '../../errors.ts'
import { serverAddress } from '../model-server.ts'

export interface AzureOptions {
  /** Such as `2024-10-21`, unless the address has one. Default: the v1 API, which needs none. */
  readonly apiVersion?: string | undefined
  /** A token of Microsoft Entra, sent instead of the key. Read at each call. */
  readonly token?: string | Secret | undefined
}

export interface AzureAddress {
  /** The address up to the path of a request. `model` is the deployment, unless the address names one. */
  readonly base: (model: string) => string
  readonly models: string
  readonly query: Readonly<Record<string, string>>
  /** The deployment that the address names. */
  readonly deployment: string | undefined
}

const host = /\.(openai|cognitiveservices|services\.ai)\.azure\.(com|us|cn)$/
const classic = /^(.*)\/openai\/deployments\/([^/]+)(?:\/chat\/completions)?$/

/**
 * Reads an address of Azure OpenAI: its endpoint, or with the path up to `/openai/v1` or to a deployment. Undefined for other
 * servers, unless `options` are given. Throws `configuration_invalid`.
 */
export function azureAddress(baseUrl: string, options: AzureOptions | undefined): AzureAddress | undefined {
  const address = serverAddress(baseUrl)
  const { hostname, searchParams } = new URL(baseUrl)
  const found = classic.exec(address)
  if (!options && !found && !host.test(hostname)) return undefined
  const version = searchParams.get('api-version') ?? options?.apiVersion
  const query = version === undefined ? {} : { 'api-version': version }
  const endpoint = found?.[1] ?? address.replace(/\/openai(\/v1(\/chat\/completions)?)?$/, '')
  const isV1 = /\/openai\/v1(\/|$)/.test(address) || !/^\d/.test(version ?? '')
  if (found && isV1)
    throw new GraphmillError(
      'configuration_invalid',
      `The address ${address} names a deployment, so it needs an API version: ?api-version=… or OPENAI_API_VERSION.`,
    )
  const deployment = found?.[2] && decodedName(found[2], address)
  const root = `${endpoint}/openai${isV1 ? '/v1' : ''}`
  return {
    base: (model) => (isV1 ? root : `${root}/deployments/${encodeURIComponent(deployment ?? model)}`),
    models: `${root}/models`,
    query: isV1 && /^\d/.test(version ?? '') ? {} : query,
    deployment,
  }
}

function decodedName(encoded: string, address: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch (cause) {
    throw new GraphmillError(
      'configuration_invalid',
      `The deployment in ${address} is not encoded as in an address.`,
      {
        cause,
      },
    )
  }
}
