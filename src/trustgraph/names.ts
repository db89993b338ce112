// TrustGraph's names. An identifier is `class:space:topic`, split at the first two colons; workspaces and flows may hold capitals
// and dots, so that two identifiers can share a name on Kafka.
import { GraphmillError } from '../errors.ts'

/** `flow:tg:chunk-load:ws:f` → `tg.flow.chunk-load.ws.f`; without a colon the identifier is the topic of `flow:tg`. */
export function kafkaTopic(identifier: string): string {
  const { kind, space, topic } = partsOf(identifier)
  return `${space}.${kind}.${topic}`.replaceAll(':', '.')
}

/**
 * `flow:tg:chunk-load:ws:f` → `persistent://tg/flow/chunk-load:ws:f`. Only the class `flow` is persistent. An identifier with `://`
 * is the name itself.
 */
export function pulsarTopic(identifier: string): string {
  if (identifier.includes('://')) return identifier
  const { kind, space, topic } = partsOf(identifier)
  return `${kind === 'flow' ? 'persistent' : 'non-persistent'}://${space}/${kind}/${topic}`
}

function partsOf(identifier: string) {
  const [kind = '', space, ...rest] = identifier.split(':')
  const topic = rest.join(':')
  if (space === undefined) return { kind: 'flow', space: 'tg', topic: identifier }
  if (!['flow', 'request', 'response', 'notify'].includes(kind) || space === '' || topic === '')
    throw new GraphmillError(
      'configuration_invalid',
      `"${identifier}" is no identifier of TrustGraph: it needs the form class:space:topic, with the class flow, request, response or notify`,
    )
  return { kind, space, topic }
}

/** The group of a TrustGraph processor on a port of a flow or request topic. */
export function groupName(processor: string, workspace: string, flow: string, port: string): string {
  return [processor, workspace, flow, port].join('--')
}

/** TrustGraph's usual identifiers by role: those of the blueprints of its templates 2.4 to 2.8. */
export function usualIdentifiers(workspace: string, flow: string) {
  const named = (kind: string, topic: string) => `${kind}:tg:${topic}:${workspace}:${flow}`
  return {
    document: named('flow', 'text-document-load'),
    chunk: named('flow', 'chunk-load'),
    triples: named('flow', 'triples-store'),
    'entity-contexts': named('flow', 'entity-contexts-load'),
    rows: named('flow', 'rows-store'),
    prompt: named('request', 'prompt'),
    'prompt-reply': named('response', 'prompt'),
    'prompt-live': named('request', 'prompt-rag'),
    'prompt-live-reply': named('response', 'prompt-rag'),
    'text-completion': named('request', 'text-completion'),
    'text-completion-reply': named('response', 'text-completion'),
  } as const
}

/** Throws `configuration_invalid` when two different identifiers have one name. */
export function refuseCollisions(
  identifiers: Iterable<string>,
  nameOf: (identifier: string) => string,
): void {
  const owners = new Map<string, string>()
  for (const identifier of identifiers) {
    const name = nameOf(identifier)
    const other = owners.get(name) ?? identifier
    if (other !== identifier)
      throw new GraphmillError(
        'configuration_invalid',
        `The identifiers "${other}" and "${identifier}" are the same topic, ${name}. Rename a workspace or a flow.`,
      )
    owners.set(name, identifier)
  }
}
