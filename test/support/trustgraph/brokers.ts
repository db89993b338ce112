// A broker as TrustGraph's deployments have it: Kafka, or Pulsar with its tenant and namespaces. Messages may have 10 MiB.
import { setTimeout as delay } from 'node:timers/promises'
import { maxWireBytes } from '../../../src/trustgraph/wire.ts'
import { startKafka } from '../kafka-server.ts'
import { type PulsarServer, startPulsar } from '../pulsar-server.ts'

export type BrokerKind = 'kafka' | 'pulsar+ws' | 'pulsar'

export interface SiteBroker {
  readonly kind: BrokerKind
  /** For `--broker`, and what else graphmill needs to reach it. */
  readonly url: string
  readonly options: readonly string[]
  /** For TrustGraph's processors. */
  readonly settings: Readonly<Record<string, string>>
  /** Resolves when each group has a member. */
  joined(groups: readonly GroupPlace[]): Promise<void>
  stop(): Promise<void>
}

/** A group of TrustGraph's, and the name on the broker of the topic that it reads. */
export interface GroupPlace {
  readonly group: string
  readonly topic: string
}

export function startSiteBroker(kind: BrokerKind): Promise<SiteBroker> {
  return kind === 'kafka' ? startSiteKafka() : startSitePulsar(kind)
}

async function startSiteKafka(): Promise<SiteBroker> {
  const server = await startKafka({ properties: { 'message.max.bytes': maxWireBytes } })
  const hosts = server.bootstrap.join()
  return {
    kind: 'kafka',
    url: `kafka://${hosts}`,
    options: [],
    settings: { pubsub_backend: 'kafka', kafka_bootstrap_servers: hosts },
    joined: async () => {},
    stop: () => server.stop(),
  }
}

async function startSitePulsar(kind: 'pulsar+ws' | 'pulsar'): Promise<SiteBroker> {
  const server = await startTrustGraphPulsar()
  const { url, binaryUrl, adminUrl } = server
  return {
    kind,
    url: kind === 'pulsar' ? binaryUrl : `pulsar+${url}`,
    options: kind === 'pulsar' ? ['--pulsar-admin', adminUrl] : [],
    settings: { pubsub_backend: 'pulsar', pulsar_host: binaryUrl, pulsar_admin_url: adminUrl },
    async joined(groups) {
      await Promise.all(groups.map((place) => hasMember(server, place)))
    },
    stop: () => server.stop(),
  }
}

/** Its topics are made as they are used; those that keep nothing are there while they have clients. */
export async function startTrustGraphPulsar(): Promise<PulsarServer> {
  const server = await startPulsar({
    settings: {
      ...{ allowAutoTopicCreation: true, allowAutoTopicCreationType: 'non-partitioned' },
      ...{ maxMessageSize: maxWireBytes, nettyMaxFrameSizeBytes: maxWireBytes + 64 * 1024 },
      webSocketMaxTextFrameSize: maxWireBytes * 1.5,
    },
  })
  await putPulsar(server, 'tenants/tg', { allowedClusters: ['standalone'] })
  for (const space of ['flow', 'request', 'response', 'notify'])
    await putPulsar(server, `namespaces/tg/${space}`)
  return server
}

export async function putPulsar({ adminUrl }: PulsarServer, path: string, body?: unknown): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const init = { method: 'PUT', headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const { ok, status } = await fetch(`${adminUrl}/admin/v2/${path}`, init)
  if (!ok) throw new Error(`${path}: ${status}`)
}

/** The path of a topic in Pulsar's admin API. */
export function pulsarPath(topic: string): string {
  const [, kind, space, name] = /^([a-z-]+):\/\/(.*)\/([^/]*)$/.exec(topic)!
  return `${kind}/${space}/${encodeURIComponent(name!)}`
}

interface Stats {
  readonly subscriptions?: Readonly<Record<string, { readonly consumers: readonly object[] }>>
}

async function hasMember({ adminUrl }: PulsarServer, { group, topic }: GroupPlace): Promise<void> {
  const end = Date.now() + 60_000
  for (;;) {
    const answer = await fetch(`${adminUrl}/admin/v2/${pulsarPath(topic)}/stats`)
    const { subscriptions } = (await answer.json()) as Stats
    if ((subscriptions?.[group]?.consumers.length ?? 0) > 0) return
    if (Date.now() > end)
      throw new Error(`${group} has no member on ${topic}: ${JSON.stringify(subscriptions)}`)
    await delay(50)
  }
}
