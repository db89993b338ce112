// The chart's workloads as processes, and what the controllers of Kubernetes do when an upgrade changes all of them: by the
// strategies, replicas and arguments of the rendered templates, so that a change of the chart changes the test.
import { execFileSync } from 'node:child_process'
import { parseAllDocuments } from 'yaml'
import { findHelm } from './helm.ts'
import type { GraphmillProcess, ProcessEnd } from './processes.ts'

export interface Workload {
  readonly name: string
  readonly replicas: number
  /** What its processes run. */
  readonly processors: readonly string[]
  readonly graceSeconds: number
  /** A StatefulSet waits until a pod is gone before it starts its replacement. */
  readonly waitsForEnd: boolean
  /** How many pods there may be beyond the replicas, and how many replicas may be missing. */
  readonly maxSurge: number
  readonly maxUnavailable: number
}

/** The workloads that the chart makes with these values, such as `options.broker=…`. */
export async function chartWorkloads(...values: readonly string[]): Promise<Workload[]> {
  const helm = await findHelm()
  if (!helm) throw new Error('There is neither Helm nor Go to build it.')
  const parameters = ['template', 'demo', 'deploy/helm/graphmill', '--kube-version', '1.36.0']
  const sets = values.flatMap((value) => ['--set', value])
  const objects = parseAllDocuments(execFileSync(helm, [...parameters, ...sets], { encoding: 'utf8' }))
  return objects
    .map((document) => document.toJS())
    .filter((object) => object?.kind === 'Deployment' || object?.kind === 'StatefulSet')
    .map(workloadOf)
}

// biome-ignore lint/suspicious/noExplicitAny: an object of Kubernetes as it is in the file
function workloadOf({ kind, metadata, spec }: any): Workload {
  const { args } = spec.template.spec.containers[0]
  const waitsForEnd = kind === 'StatefulSet'
  const strategy = waitsForEnd
    ? { maxSurge: 0, maxUnavailable: 1 }
    : { maxSurge: '25%', maxUnavailable: '25%', ...spec.strategy?.rollingUpdate }
  const count = (amount: number | string, round: (value: number) => number) =>
    typeof amount === 'number' ? amount : round((Number.parseInt(amount, 10) / 100) * spec.replicas)
  return {
    name: metadata.labels['app.kubernetes.io/component'],
    replicas: spec.replicas,
    processors: args.slice(1, args.indexOf('--config')),
    graceSeconds: spec.template.spec.terminationGracePeriodSeconds,
    waitsForEnd,
    maxSurge: count(strategy.maxSurge, Math.ceil),
    maxUnavailable: count(strategy.maxUnavailable, Math.floor),
  }
}

/**
 * Replaces the pods of a workload as its controller does: a pod that is being stopped no longer counts, and a new one is available
 * when `start` resolves. Changes `pods`; resolves to the ends of the old ones.
 */
export async function rollOut(
  workload: Workload,
  pods: GraphmillProcess[],
  start: () => Promise<GraphmillProcess>,
): Promise<ProcessEnd[]> {
  const { replicas, maxSurge, maxUnavailable, waitsForEnd } = workload
  const old = pods.splice(0)
  const ends: Promise<ProcessEnd>[] = []
  const starting = new Set<Promise<void>>()
  while (old.length > 0 || pods.length < replicas) {
    const spare = old.length + pods.length - (replicas - maxUnavailable)
    const stopped = old.splice(0, Math.max(0, spare)).map((pod) => stop(pod, workload))
    ends.push(...stopped)
    if (waitsForEnd) await Promise.all(stopped)
    const missing = replicas - pods.length - starting.size
    const room = Math.min(missing, replicas + maxSurge - old.length - pods.length - starting.size)
    for (let begun = 0; begun < room; begun++) {
      const one: Promise<void> = start().then((pod) => {
        pods.push(pod)
        starting.delete(one)
      })
      starting.add(one)
    }
    if (starting.size > 0) await Promise.race(starting)
  }
  return Promise.all(ends)
}

/** SIGTERM, and SIGKILL after the grace period. */
async function stop(pod: GraphmillProcess, { graceSeconds }: Workload): Promise<ProcessEnd> {
  const late = setTimeout(() => void pod.end('SIGKILL'), graceSeconds * 1000)
  return pod.end('SIGTERM').finally(() => clearTimeout(late))
}
