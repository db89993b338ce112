// The chart, installed into a real API server with the custom resources of KEDA and of Prometheus' operator. There are no nodes and no
// controllers: what a pod would be is asked for in the place of its workload. Without an API server, only the published schemas are
// compared with what Helm renders, which is less: no custom resources, no Pod Security, no upgrades.
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { parse, parseAllDocuments } from 'yaml'
import { processorNames } from '../../processors/modules.ts'
import { definitionPaths } from '../../scripts/cluster-tools.js'
import {
  type Answer,
  type ControlPlane,
  missingForControlPlane,
  startControlPlane,
} from '../support/control-plane.ts'
import { findHelm } from '../support/helm.ts'
import { installPackage, programOf } from '../support/python-package.ts'

const chart = 'deploy/helm/graphmill'
const examples = readdirSync('deploy/helm/examples').map((name) => join('deploy/helm/examples', name))

const missing = missingForControlPlane()
if (missing) process.stderr.write(`The chart in a real API server: not shown, ${missing}\n`)

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes as they are
type KubernetesObject = any

/** Where the API has the objects of a kind, in a namespace. */
const collections: Readonly<Record<string, string>> = {
  ConfigMap: 'api/v1/namespaces/*/configmaps',
  Deployment: 'apis/apps/v1/namespaces/*/deployments',
  NetworkPolicy: 'apis/networking.k8s.io/v1/namespaces/*/networkpolicies',
  Pod: 'api/v1/namespaces/*/pods',
  PodDisruptionBudget: 'apis/policy/v1/namespaces/*/poddisruptionbudgets',
  PodMonitor: 'apis/monitoring.coreos.com/v1/namespaces/*/podmonitors',
  PrometheusRule: 'apis/monitoring.coreos.com/v1/namespaces/*/prometheusrules',
  ScaledObject: 'apis/keda.sh/v1alpha1/namespaces/*/scaledobjects',
  Service: 'api/v1/namespaces/*/services',
  ServiceAccount: 'api/v1/namespaces/*/serviceaccounts',
  StatefulSet: 'apis/apps/v1/namespaces/*/statefulsets',
}

// Every key of the values that makes objects or fields which no example has.
const everything = {
  image: { repository: 'registry.example/graphmill', digest: `sha256:${'a'.repeat(64)}` },
  imagePullSecrets: [{ name: 'registry' }],
  options: { broker: 'pulsar+ssl://pulsar:6651/acme/graphs', llm: 'openai', model: 'm' },
  env: { OPENAI_BASE_URL: 'http://vllm:8000/v1' },
  secrets: [
    { variable: 'OPENAI_API_KEY_FILE', secret: 'graphmill', key: 'openai-api-key', processors: ['prompt'] },
    { variable: 'GRAPHMILL_PULSAR_TOKEN_FILE', secret: 'graphmill', key: 'pulsar-token' },
    { variable: 'GRAPHMILL_TLS_CA', secret: 'authorities', key: 'ca.crt' },
  ],
  flows: [{ workspace: 'a', flow: 'b', extractors: ['definitions', 'rows', 'agent-kg', 'ontology'] }],
  files: {
    prompts: { content: { 'own.yaml': 'prompts: {}' } },
    schemas: { existing: 'schemas' },
    ontologies: { content: { 'own.ttl': '# none' } },
  },
  processorDefaults: {
    replicas: 2,
    env: { NODE_OPTIONS: '--max-old-space-size=256' },
    cache: true,
    autoscaling: { enabled: true },
    priorityClassName: 'batch',
    nodeSelector: { disk: 'ssd' },
    tolerations: [{ key: 'batch', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 1,
            podAffinityTerm: {
              topologyKey: 'kubernetes.io/hostname',
              labelSelector: { matchLabels: { a: 'b' } },
            },
          },
        ],
      },
    },
    persistence: { size: '1Gi', storageClassName: 'fast' },
    podAnnotations: { 'example.com/a': 'b' },
    podLabels: { team: 'graphs' },
    extraVolumes: [{ name: 'extra', emptyDir: {} }],
    extraVolumeMounts: [{ name: 'extra', mountPath: '/extra' }],
  },
  processors: Object.fromEntries(processorNames.map((name) => [name, { enabled: true }])),
  serviceAccount: { annotations: { 'example.com/role': 'r' } },
  networkPolicy: {
    enabled: true,
    from: [{ podSelector: {} }],
    egress: [{ ports: [{ port: 6651, protocol: 'TCP' }] }],
  },
  monitoring: {
    podMonitor: { enabled: true, labels: { release: 'prometheus' } },
    prometheusRule: { enabled: true, labels: { release: 'prometheus' } },
    dashboard: { enabled: true },
  },
  autoscaling: { authentication: 'pulsar', prometheus: 'http://prometheus:9090' },
  extraObjects: [
    {
      apiVersion: 'keda.sh/v1alpha1',
      kind: 'TriggerAuthentication',
      metadata: { name: 'pulsar' },
      spec: { secretTargetRef: [{ parameter: 'bearerToken', name: 'graphmill', key: 'pulsar-token' }] },
    },
  ],
}

let helm: string
const folder = mkdtempSync(join(tmpdir(), 'graphmill-cluster-'))
const everyValue = join(folder, 'every-value.json')
writeFileSync(everyValue, JSON.stringify(everything))
const cases = [...examples.map((path) => [path, path] as const), ['every value', everyValue] as const]

beforeAll(async () => {
  const found = await findHelm()
  if (!found) throw new Error('There is neither Helm nor Go to build it.')
  helm = found
}, 900_000)
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** A copy of the chart with a mistake in a template. */
function mistaken(template: string, right: string, wrong: string): string {
  const copy = mkdtempSync(join(folder, 'chart-'))
  cpSync(chart, copy, { recursive: true })
  const path = join(copy, 'templates', template)
  const text = readFileSync(path, 'utf8')
  expect(text).toContain(right)
  writeFileSync(path, text.replaceAll(right, wrong))
  return copy
}

describe.skipIf(missing !== undefined)('in an API server', () => {
  let cluster: ControlPlane
  beforeAll(async () => {
    cluster = await startControlPlane()
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    for (const definition of definitionPaths.map((file) => parse(readFileSync(file, 'utf8')))) {
      await created(path, definition)
      // Objects of the kind are known from then on.
      await vi.waitFor(
        async () => {
          const { conditions } = (await get(`${path}/${definition.metadata.name}`)).body.status
          expect(conditions).toContainEqual(expect.objectContaining({ type: 'Established', status: 'True' }))
        },
        { timeout: 30_000 },
      )
    }
    const priority = { metadata: { name: 'batch' }, value: 1000 }
    await created('/apis/scheduling.k8s.io/v1/priorityclasses', priority)
  }, 600_000)
  afterAll(() => cluster?.stop())

  const get = (path: string) => cluster.request('GET', path)
  async function created(path: string, object: object): Promise<Answer> {
    const answer = await cluster.request(
      'POST',
      `${path}${path.includes('?') ? '&' : '?'}fieldValidation=Strict`,
      object,
    )
    expect(answer.status, JSON.stringify(answer.body)).toBe(201)
    return answer
  }
  const inNamespace = (kind: string, namespace: string) => `/${collections[kind]?.replace('*', namespace)}`

  /** A namespace whose pods keep to the restricted Pod Security. */
  async function namespaced(name: string): Promise<string> {
    const labels = Object.fromEntries(
      ['enforce', 'warn', 'audit'].map((mode) => [`pod-security.kubernetes.io/${mode}`, 'restricted']),
    )
    await created('/api/v1/namespaces', { metadata: { name, labels } })
    return name
  }

  /** What Helm prints. Fails with what is on stderr, which is also where a warning of the API server comes. */
  async function helmRun(namespace: string, ...parameters: readonly string[]): Promise<string> {
    const target = ['--namespace', namespace, '--kubeconfig', cluster.kubeconfig]
    const { stdout, stderr } = await promisify(execFile)(helm, [...parameters, ...target])
    if (stderr !== '') throw new Error(stderr)
    return stdout
  }

  const stored = async (namespace: string, manifest: string): Promise<KubernetesObject[]> =>
    Promise.all(
      parseAllDocuments(manifest)
        .map((document) => document.toJS())
        .filter((object) => object !== null && object.kind !== 'TriggerAuthentication')
        .map(async ({ kind, metadata }) => {
          const { status, body } = await get(`${inNamespace(kind, namespace)}/${metadata.name}`)
          expect(status, `${kind} ${metadata.name}`).toBe(200)
          return body
        }),
    )
  const installed = async (namespace: string) =>
    stored(namespace, await helmRun(namespace, 'get', 'manifest', 'demo'))

  test.each(cases)('%s is installed without a warning, and its pods are admitted', async (name, values) => {
    const namespace = await namespaced(`install-${name.replace(/.*\/|\W+/g, '')}`)
    await helmRun(namespace, 'install', 'demo', chart, '--values', values)
    const workloads = (await installed(namespace)).filter(({ spec }) => spec?.template)
    expect(workloads).not.toEqual([])
    for (const { metadata, spec } of workloads) {
      // Their controller adds the volumes of the claims.
      const claims = (spec.volumeClaimTemplates ?? []).map((claim: KubernetesObject) => ({
        name: claim.metadata.name,
        persistentVolumeClaim: { claimName: claim.metadata.name },
      }))
      const volumes = [...spec.template.spec.volumes, ...claims]
      const pod = {
        metadata: { ...spec.template.metadata, name: metadata.name },
        spec: { ...spec.template.spec, volumes },
      }
      const { warnings } = await created(`${inNamespace('Pod', namespace)}?dryRun=All`, pod)
      expect(warnings, metadata.name).toEqual([])
    }
  })

  test('a pod without its security context would be refused there', async () => {
    const namespace = await namespaced('refusing')
    await created(inNamespace('ServiceAccount', namespace), { metadata: { name: 'default' } })
    const pod = { metadata: { name: 'a' }, spec: { containers: [{ name: 'a', image: 'a' }] } }
    const { status, body } = await cluster.request('POST', `${inNamespace('Pod', namespace)}?dryRun=All`, pod)
    expect(status).toBe(403)
    expect(body.message).toContain('violates PodSecurity "restricted:latest"')
  })

  test('an upgrade changes what changed, a rollback goes back, and uninstalling leaves nothing', async () => {
    const namespace = await namespaced('upgrading')
    const specs = async () =>
      Object.fromEntries(
        (await installed(namespace)).map(({ kind, metadata, spec, data }) => [
          `${kind}/${metadata.name}`,
          spec ?? data,
        ]),
      )
    const kafka = [
      '--values',
      'deploy/helm/examples/kafka.yaml',
      '--set',
      'processors.emit-triples.replicas=3',
    ]
    await helmRun(namespace, 'install', 'demo', chart, ...kafka)
    const before = await specs()
    // Another image, another option, no store (a StatefulSet), a processor less, pods by backlog.
    const changes = [
      'image.tag=2.0.0',
      'processors.prompt.options.concurrency=128',
      'processors.extract-topics.enabled=false,flows[1].extractors={definitions,rows}',
      'options.store=null',
      'processors.emit-triples.autoscaling.enabled=true',
    ]
    await helmRun(
      namespace,
      'upgrade',
      'demo',
      chart,
      ...kafka,
      ...changes.flatMap((each) => ['--set', each]),
    )
    const after = await specs()
    const added = (to: object, from: object) =>
      Object.keys(to)
        .filter((name) => !(name in from))
        .sort()
    expect(added(after, before)).toEqual([
      'ScaledObject/demo-graphmill-emit-triples',
      'Service/demo-graphmill-store-triples',
      'StatefulSet/demo-graphmill-store-triples',
    ])
    expect(added(before, after)).toEqual([
      'ConfigMap/demo-graphmill-extract-topics',
      'Deployment/demo-graphmill-extract-topics',
      'Deployment/demo-graphmill-store-triples',
    ])
    const [container] = after['Deployment/demo-graphmill-prompt'].template.spec.containers
    expect(container.image).toBe('graphmill:2.0.0')
    // Nothing names a number of pods any more.
    const emitted = 'Deployment/demo-graphmill-emit-triples'
    expect([before[emitted].replicas, after[emitted].replicas]).toEqual([3, 1])
    const size = ['--set', 'processors.store-triples.persistence.size=20Gi']
    const resized = helmRun(namespace, 'upgrade', 'demo', chart, '--reuse-values', ...size)
    await expect(resized).rejects.toThrow('updates to statefulset spec for fields other than')
    await helmRun(namespace, 'rollback', 'demo', '1')
    expect(await specs()).toEqual(before)
    const manifest = await helmRun(namespace, 'get', 'manifest', 'demo')
    await helmRun(namespace, 'uninstall', 'demo')
    for (const kind of new Set(parseAllDocuments(manifest).map((document) => document.get('kind') as string)))
      expect((await get(inNamespace(kind, namespace))).body.items, kind).toEqual([])
  })

  test.each([
    ['workloads.yaml', 'readOnlyRootFilesystem', 'readOnlyRootFileSystem'],
    ['availability.yaml', 'unhealthyPodEvictionPolicy', 'unhealthyPodsEvictionPolicy'],
    ['scaledobjects.yaml', 'pollingInterval', 'poolingInterval'],
    ['monitoring.yaml', 'podMetricsEndpoints', 'podMetricEndpoints'],
    [
      '_helpers.tpl',
      'set $metadata "msgBacklogThreshold" $threshold',
      'set $metadata "msgBacklogThreshold" 5',
    ],
  ])('a mistake in %s, %s, is refused', async (template, right, wrong) => {
    const copy = mistaken(template, right, wrong)
    const namespace = await namespaced(`mistake-${template.replace(/\W.*|_/g, '')}`)
    await expect(helmRun(namespace, 'install', 'demo', copy, '--values', everyValue)).rejects.toThrow(
      /unknown field|Invalid value|invalid type/,
    )
  })
})

const validator = missing
  ? installPackage('kubernetes-validate', 'kubernetes_validate', 'kubernetes-validate==1.37.0')
  : missing
if (validator) process.stderr.write(`The chart against the schemas of Kubernetes: not shown, ${validator}\n`)

describe.skipIf(!missing || validator)('without an API server', () => {
  async function validate(path: string, values: string): Promise<string> {
    const rendered = join(mkdtempSync(join(folder, 'rendered-')), 'objects.yaml')
    const execute = promisify(execFile)
    const parameters = ['template', 'demo', path, '--kube-version', '1.36.0', '--values', values]
    writeFileSync(rendered, (await execute(helm, parameters)).stdout)
    const strict = ['--kubernetes-version', '1.36', '--strict', rendered]
    return (await execute(programOf('kubernetes-validate', 'kubernetes-validate'), strict)).stdout
  }

  test.each(cases)('%s has only fields of the published schemas', async (_name, values) => {
    expect(await validate(chart, values)).toMatch(/passed for resource (deployment|statefulset)\//)
  })

  test('a field that does not exist is found', async () => {
    const copy = mistaken('workloads.yaml', 'readOnlyRootFilesystem', 'readOnlyRootFileSystem')
    await expect(validate(copy, everyValue)).rejects.toMatchObject({
      stdout: expect.stringContaining('readOnlyRootFileSystem'),
    })
  })
})
