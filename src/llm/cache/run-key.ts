// The key of a run in the cache: its workspace, its model and its first request.
import { hash } from 'node:crypto'
import type { CompletionRequest, Llm } from '../llm.ts'
import { flatJson } from './canonical.ts'

/** The hash of a request's messages and parameters, in 32 hexadecimal digits. The order of keys does not count. */
export function requestDigest({ messages, sampling = {}, extras = {} }: CompletionRequest): string {
  return hash('sha256', flatJson({ messages, sampling, extras }), 'hex').slice(0, 32)
}

/** The key of the run that begins with this request. */
export function runKey(workspace: string, llm: Llm, request: CompletionRequest): string {
  const { provider, destination, model, defaults = {} } = llm
  const asked = { provider, destination, model, defaults }
  return flatJson({ version: 1, workspace, ...asked, request: requestDigest(request) })
}
