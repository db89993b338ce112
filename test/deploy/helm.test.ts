// The chart, rendered by Helm: what it makes must be what the program reads.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { loadProcessors, processorNames } from '../../processors/modules.ts'
import { topicSpec } from '../../src/broker/topics.ts'
import { readConfig } from '../../src/config/config.ts'
import { readFlows } from '../../src/config/flows.ts'
import { optionTable } from '../../src/config/options.ts'
import { inputGroup, inputPorts, inputTopic } from '../../src/flow/ports.ts'
import { storedSeconds } from '../../src/observe/document-metrics.ts'
import { findHelm } from '../support/helm.ts'

const chart = 'deploy/helm/graphmill'
const examples = readdirSync('deploy/helm/examples').map((name) => join('deploy/helm/examples', name))
const minimal = ['--set', 'options.broker=kafka://kafka:9092']

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes as they are in the files
type KubernetesObject = any

let helm: string | undefined
let folder: string
beforeAll(async () => {
  helm = await findHelm()
  folder = mkdtempSync(join(tmpdir(), 'helm-'))
}, 900_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function helmRun(...args: string[]) {
  if (!helm) throw new Error('There is neither Helm nor Go to build it.')
  const { status, stdout, stderr } = spawnSync(helm, args, { encoding: 'utf8' })
  return { status, stdout, stderr }
}

function render(...args: string[]): KubernetesObject[] {
  const { status, stdout, stderr } = helmRun('template', 'demo', chart, '--kube-version', '1.36.0', ...args)
  expect(stderr).toBe('')
  expect(status).toBe(0)
  return parseAllDocuments(stdout)
    .map((document) => document.toJS())
    .filter((object) => object !== null)
}

const refusal = (...args: string[]) => {
  const { status, stderr } = helmRun('template', 'demo', chart, '--kube-version', '1.36.0', ...args)
  expect(status).not.toBe(0)
  return stderr
}

const ofKind = (objects: readonly KubernetesObject[], ...kinds: string[]) =>
  objects.filter(({ kind }) => kinds.includes(kind))

const workloads = (objects: readonly KubernetesObject[]) => ofKind(objects, 'Deployment', 'StatefulSet')

const entryOf = (object: KubernetesObject): string => object.metadata.labels['app.kubernetes.io/component']

/** A file that a ConfigMap holds. */
function written(name: string, text: string): string {
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

describe.each(examples)('%s', (example) => {
  test('has no finding of helm lint', () => {
    const { status, stdout, stderr } = helmRun('lint', '--strict', chart, '--values', example)
    expect(stdout + stderr).toContain('0 chart(s) failed')
    expect(status).toBe(0)
  })

  test('gives every process options and flows that it accepts', () => {
    const objects = render('--values', example)
    const maps = new Map(ofKind(objects, 'ConfigMap').map(({ metadata, data }) => [metadata.name, data]))
    const flows = written('flows.yaml', maps.get('demo-graphmill-flows')['flows.yaml'])
    for (const workload of workloads(objects)) {
      const [container] = workload.spec.template.spec.containers
      const file = written('graphmill.yaml', maps.get(workload.metadata.name)['graphmill.yaml'])
      const config = readConfig({ flags: { config: file }, environment: {} })
      expect(config.options.broker).toMatch(/^(kafka|pulsar)/)
      expect(config.options.http).toBe('0.0.0.0:8000')
      expect(config.options.watchdog).toBe(0)
      const ports = Object.fromEntries(inputPorts.map((port) => [port, { compacted: port === 'status' }]))
      expect(readFlows(flows, config, { ports })).not.toEqual([])
      expect(container.env).toContainEqual({
        name: 'GRAPHMILL_GROUP_INSTANCE_ID',
        valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } },
      })
      const [command, ...rest] = container.args
      expect(command).toBe('run')
      const names = rest.slice(0, rest.indexOf('--config'))
      expect([...processorNames, '--all']).toEqual(expect.arrayContaining(names))
    }
  })

  test('mounts what the options and variables name, and writes only to volumes', () => {
    for (const { spec } of workloads(render('--values', example))) {
      const { containers, volumes } = spec.template.spec
      const [{ env = [], volumeMounts }] = containers
      const claims = (spec.volumeClaimTemplates ?? []).map(({ metadata }: KubernetesObject) => metadata.name)
      const known = [...volumes.map(({ name }: KubernetesObject) => name), ...claims]
      expect(new Set(volumeMounts.map(({ name }: KubernetesObject) => name))).toEqual(new Set(known))
      const folders = volumeMounts.map(({ mountPath }: KubernetesObject) => `${mountPath}/`)
      for (const { name, value } of env)
        if (name.endsWith('_FILE'))
          expect(
            folders.some((path: string) => value.startsWith(path)),
            value,
          ).toBe(true)
    }
  })

  test('keeps to the restricted Pod Security, with bounded memory and probes', () => {
    for (const { spec } of workloads(render('--values', example))) {
      const pod = spec.template.spec
      expect(pod.securityContext).toMatchObject({
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      })
      expect(pod.automountServiceAccountToken).toBe(false)
      expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(optionTable['llm-timeout'].default + 15)
      for (const container of pod.containers) {
        expect(container.securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ['ALL'] },
        })
        expect(container.resources.limits.memory).toBeDefined()
        // It stands in for the watchdog, whose thread takes 13 MiB.
        expect(container.livenessProbe).toMatchObject({
          httpGet: { path: '/healthz' },
          periodSeconds: 10,
          failureThreshold: 6,
          terminationGracePeriodSeconds: 10,
        })
        expect(container.startupProbe.terminationGracePeriodSeconds).toBe(10)
        expect(pod.shareProcessNamespace).toBe(true)
        expect(container.readinessProbe.httpGet.path).toBe('/readyz')
      }
      const { matchLabels } = spec.selector
      expect(spec.template.metadata.labels).toMatchObject(matchLabels)
    }
  })

  test('has triggers that name the topics and groups of the program', async () => {
    const objects = render('--values', example)
    const processors = new Map((await loadProcessors()).map((processor) => [processor.name, processor]))
    const known = new Map<string, string>()
    const flows = parse(
      ofKind(objects, 'ConfigMap').find(({ metadata }) => metadata.name === 'demo-graphmill-flows').data[
        'flows.yaml'
      ],
    ).flows
    for (const { workspace, flow } of flows)
      for (const { name, inputs } of processors.values())
        for (const port of inputs) {
          const topics = { space: 'gm', workspace, flow }
          known.set(inputGroup(port, topics, name), inputTopic(port, topics, name))
        }
    const workloadNames = workloads(objects).map(({ kind, metadata }) => `${kind}/${metadata.name}`)
    for (const { spec } of ofKind(objects, 'ScaledObject')) {
      expect(workloadNames).toContain(`${spec.scaleTargetRef.kind}/${spec.scaleTargetRef.name}`)
      const lag = spec.triggers.filter(({ type }: KubernetesObject) => type !== 'prometheus')
      expect(lag).not.toEqual([])
      for (const { metadata } of lag) {
        const group = metadata.consumerGroup ?? metadata.subscription
        expect(metadata.topic.split('/').at(-1)).toBe(known.get(group))
      }
      expect(spec.cooldownPeriod).toBeGreaterThan(optionTable['llm-call-timeout'].default)
    }
  })
})

test('every input of every processor has a trigger, and as many pods as partitions may run', async () => {
  const all = { enabled: true, autoscaling: { enabled: true } }
  const values = {
    options: { broker: 'kafka://kafka:9092' },
    flows: [
      {
        workspace: 'a',
        flow: 'b',
        extractors: ['definitions', 'relationships', 'topics', 'rows', 'agent-kg', 'ontology'],
      },
    ],
    processors: Object.fromEntries(processorNames.map((name) => [name, all])),
  }
  const objects = render('--values', written('values.json', JSON.stringify(values)))
  for (const { name, inputs } of await loadProcessors()) {
    const scaled = ofKind(objects, 'ScaledObject').find((object) => entryOf(object) === name)
    const topics = inputs.map((port) => inputTopic(port, { space: 'gm', workspace: 'a', flow: 'b' }, name))
    expect(
      scaled.spec.triggers.map(({ metadata }: KubernetesObject) => metadata.topic),
      name,
    ).toEqual(topics)
    const partitions = Math.max(...topics.map((topic) => topicSpec(topic).partitions))
    expect(scaled.spec.maxReplicaCount, name).toBe(partitions)
  }
})

test('a storm of 429s adds no replicas of prompt where Prometheus is known', () => {
  const objects = render('--values', 'deploy/helm/examples/autoscaling.yaml')
  const scaled = ofKind(objects, 'ScaledObject').find((object) => entryOf(object) === 'prompt')
  const { formula, target } = scaled.spec.advanced.scalingModifiers
  const names = scaled.spec.triggers.map(({ name }: KubernetesObject) => name)
  expect(names).toEqual(['lag0', 'lag1', 'refused', 'replicas'])
  // The formula has the syntax of JavaScript, too.
  const wanted = (refused: number, lag: number, replicas: number) =>
    new Function(...names, 'min', `return ${formula}`)(lag, 0, refused, replicas, Math.min) / Number(target)
  expect(wanted(0.05, 6400, 2)).toBe(100)
  expect(wanted(0.5, 6400, 2)).toBe(2)
  expect(wanted(0.5, 64, 2)).toBe(1)
  expect(wanted(0.5, 0, 2)).toBe(0)
})

test.each(['prompt', 'text-completion'])('%s asks Prometheus for its own refusals', (name) => {
  const enabled = `processors.${name}.enabled=true,processors.${name}.autoscaling.enabled=true`
  const objects = render(...minimal, '--set', `${enabled},autoscaling.prometheus=http://prometheus:9090`)
  const { spec } = ofKind(objects, 'ScaledObject').find((object) => entryOf(object) === name)
  const queries = spec.triggers.flatMap(({ metadata }: KubernetesObject) => metadata.query ?? [])
  expect(queries.length).toBe(2)
  for (const query of queries) expect(query).toContain(`{processor="${name}",namespace="default"}`)
})

test('options of one entry restart its pods only, and flows restart none', () => {
  const checksums = (...args: string[]) =>
    Object.fromEntries(
      workloads(render(...minimal, ...args)).map((object) => [
        entryOf(object),
        object.spec.template.metadata.annotations['checksum/options'],
      ]),
    )
  const before = checksums()
  const after = checksums('--set', 'processors.prompt.options.concurrency=128')
  expect(Object.keys(before).filter((name) => before[name] !== after[name])).toEqual(['prompt'])
  expect(checksums('--set', 'flows[0].workspace=acme,flows[0].flow=papers')).toEqual(before)
})

test('an entry that no flow needs is not scaled by what waits, and has no pod', () => {
  const extractors = ['--set', 'flows[0].extractors={definitions}']
  const objects = render(...minimal, ...extractors, '--set', 'processorDefaults.autoscaling.enabled=true')
  const scaled = ofKind(objects, 'ScaledObject').map(entryOf)
  expect(scaled).toContain('extract-definitions')
  expect(scaled).not.toContain('extract-topics')
  const replicas = Object.fromEntries(workloads(objects).map((each) => [entryOf(each), each.spec.replicas]))
  expect([replicas['extract-topics'], replicas['extract-definitions']]).toEqual([0, undefined])
})

test('null takes an option or a variable out that the values before it have', () => {
  const kafka = ['--values', 'deploy/helm/examples/kafka.yaml']
  const objects = render(...kafka, '--set', 'options.store=null,env.A=1,env.B=null')
  const maps = ofKind(objects, 'ConfigMap').filter(({ data }) => 'graphmill.yaml' in data)
  for (const { data } of maps) expect(Object.keys(parse(data['graphmill.yaml']))).not.toContain('store')
  const [prompt] = workloads(objects).filter((each) => entryOf(each) === 'prompt')
  const names = prompt.spec.template.spec.containers[0].env.map(({ name }: KubernetesObject) => name)
  expect(names).toContain('A')
  expect(names).not.toContain('B')
})

test('the store has a volume of its own, unless a store is named', () => {
  const kinds = (...args: string[]) =>
    workloads(render(...minimal, ...args))
      .filter((object) => entryOf(object) === 'store-triples')
      .map(({ kind }) => kind)
  expect(kinds()).toEqual(['StatefulSet'])
  expect(kinds('--set', 'options.store=http://fuseki:3030/ds/update')).toEqual(['Deployment'])
})

test('files of rows have a volume, whatever stores the triples', () => {
  const store = ['--set', 'options.store=http://fuseki:3030/ds/update']
  const objects = render(...minimal, ...store, '--set', 'processors.store-rows.enabled=true')
  const rows = workloads(objects).find((object) => entryOf(object) === 'store-rows')
  expect(rows.kind).toBe('StatefulSet')
  const map = ofKind(objects, 'ConfigMap').find(({ metadata }) => metadata.name === rows.metadata.name)
  expect(parse(map.data['graphmill.yaml'])).toMatchObject({ rows: '/data/rows' })
})

test.each([
  [[], 'options.broker is not set'],
  [['--set', 'options.broker=memory'], '"memory" is no address of a broker'],
  [[...minimal, '--set', 'options.sasl-password=x'], 'GRAPHMILL_SASL_PASSWORD_FILE'],
  [
    [...minimal, '--set', 'options.concurency=64'],
    'options.concurency: there is no such option. docs/configuration.md',
  ],
  [
    [...minimal, '--set', 'processors.prompt.options.modell=m'],
    'processors.prompt.options.modell: there is no such option',
  ],
  [[...minimal, '--set', 'options.budget=20/day'], 'Set options.limit-scope=all, or workspace'],
  [[...minimal, '--set', 'options.flows=x'], 'Use flows or existingFlows instead'],
  [[...minimal, '--set', 'files.schemas.content.a=x'], 'Set processors.extract-rows.enabled=true'],
  [
    [...minimal, '--set', 'processors.extract-topics.enabled=false'],
    'no entry of processors runs extract-topics',
  ],
  [[...minimal, '--set', 'processors.foo.replicas=2'], 'there is no processor "foo"'],
  [[...minimal, '--set', 'processors.two.run={prompt}'], 'prompt runs in processors'],
  [[...minimal, '--set', 'procesors.prompt.replicas=2'], 'procesors'],
  [[...minimal, '--set', 'processors.prompt.replica=2'], 'replica'],
  [
    [...minimal, '--set', 'secrets[0].variable=OPENAI_API_KEY,secrets[0].secret=a,secrets[0].key=b'],
    'OPENAI_API_KEY_FILE',
  ],
])('%j is refused with advice', (args, advice) => {
  expect(refusal(...args)).toContain(advice)
})

test('the objectives of the rules are those of the values, the bounds of times those of the histogram', () => {
  const expressions = (...args: string[]): string =>
    ofKind(
      render(...minimal, '--set', 'monitoring.prometheusRule.enabled=true', ...args),
      'PrometheusRule',
    )[0]
      .spec.groups.flatMap(({ rules }: KubernetesObject) => rules.map(({ expr }: KubernetesObject) => expr))
      .join('\n')
  const file = parse(readFileSync(`${chart}/files/alerts.yaml`, 'utf8'))
  const own = file.groups.flatMap(({ rules }: KubernetesObject) =>
    rules.map(({ expr }: KubernetesObject) => expr),
  )
  expect(expressions()).toBe(own.join('\n'))
  const objectives = { unitsDone: 0.95, inTime: 0.999, inTimeSeconds: 300 }
  const given = ['--set-json', `monitoring.objectives=${JSON.stringify(objectives)}`]
  expect(expressions(...given)).toBe(
    own
      .join('\n')
      .replaceAll('(1 - 0.99)', '(1 - _)')
      .replaceAll('(1 - 0.95)', '(1 - 0.999)')
      .replaceAll('(1 - _)', '(1 - 0.95)')
      .replaceAll('"3600(', '"300('),
  )
  expect(expressions(...given)).not.toContain('3600')
  const schema = JSON.parse(readFileSync(`${chart}/values.schema.json`, 'utf8'))
  const { inTimeSeconds } = schema.properties.monitoring.properties.objectives.properties
  expect(inTimeSeconds.enum).toEqual(storedSeconds)
})

test('alerts and the dashboard name metrics that the program has', () => {
  const known = readFileSync('docs/metrics.md', 'utf8')
  const expressions = [
    ...parse(readFileSync(`${chart}/files/alerts.yaml`, 'utf8')).groups.flatMap((group: KubernetesObject) =>
      group.rules.map(({ expr }: KubernetesObject) => expr),
    ),
    ...JSON.parse(readFileSync(`${chart}/files/dashboard.json`, 'utf8')).panels.flatMap(
      ({ targets = [] }: KubernetesObject) => targets.map(({ expr }: KubernetesObject) => expr),
    ),
  ]
  expect(expressions.length).toBeGreaterThan(30)
  const names = new Set(expressions.flatMap((each) => each.match(/\b(?:graphmill|tg)_[a-z_]+/g) ?? []))
  for (const name of names) expect(known).toContain(`\`${name.replace(/_(bucket|sum|count)$/, '')}\``)
})
