// Kubernetes' API server with an etcd, as processes of the test: without nodes and controllers, so that objects are checked and stored,
// and no pod runs. scripts/cluster-tools.js builds it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { generateKeyPairSync } from 'node:crypto'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request as httpsRequest } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { apiServerPath } from '../../scripts/cluster-tools.js'
import { freePorts } from './ports.ts'

const token = 'test-token'
const startTimeoutMs = 180_000

export interface Answer {
  readonly status: number
  /** What `kubectl` would print as warnings. */
  readonly warnings: readonly string[]
  // biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes as they are
  readonly body: any
}

export interface ControlPlane {
  /** The path of a kubeconfig with all rights. */
  readonly kubeconfig: string
  request(method: string, path: string, body?: object): Promise<Answer>
  stop(): Promise<void>
}

/** What the API server needs and is not here, if anything. */
export function missingForControlPlane(): string | undefined {
  if (!existsSync(apiServerPath)) return 'kube-apiserver is not built (node scripts/cluster-tools.js)'
  if (spawnSync('etcd', ['--version']).status !== 0) return 'there is no etcd'
  return undefined
}

export async function startControlPlane(): Promise<ControlPlane> {
  const folder = await mkdtemp(join(tmpdir(), 'graphmill-kubernetes-'))
  const [etcdPort, peerPort, port] = (await freePorts(3)) as [number, number, number]
  const keys = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
  const [keyFile, tokenFile] = [join(folder, 'accounts.key'), join(folder, 'tokens.csv')]
  await writeFile(keyFile, keys.privateKey)
  await writeFile(tokenFile, `${token},test,test,system:masters\n`)
  const processes = [
    run(folder, 'etcd', [
      `--data-dir=${folder}/etcd`,
      `--listen-client-urls=http://127.0.0.1:${etcdPort}`,
      `--advertise-client-urls=http://127.0.0.1:${etcdPort}`,
      `--listen-peer-urls=http://127.0.0.1:${peerPort}`,
    ]),
    run(folder, apiServerPath, [
      `--etcd-servers=http://127.0.0.1:${etcdPort}`,
      '--bind-address=127.0.0.1',
      `--secure-port=${port}`,
      `--cert-dir=${folder}/certificates`,
      `--token-auth-file=${tokenFile}`,
      '--authorization-mode=RBAC',
      '--endpoint-reconciler-type=none',
      '--service-cluster-ip-range=10.96.0.0/16',
      '--service-account-issuer=https://kubernetes.default.svc',
      `--service-account-key-file=${keyFile}`,
      `--service-account-signing-key-file=${keyFile}`,
    ]),
  ]
  const stop = async () => {
    for (const child of processes.toReversed()) await end(child)
    await rm(folder, { recursive: true, force: true })
  }
  const authority = join(folder, 'certificates', 'apiserver.crt')
  const request: ControlPlane['request'] = async (...call) => ask(port, readFileSync(authority), ...call)
  const deadline = Date.now() + startTimeoutMs
  while ((await request('GET', '/readyz').catch(() => undefined))?.status !== 200) {
    const ended = processes.find(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null)
    if (ended || Date.now() > deadline) {
      const log = readFileSync(join(folder, 'log'), 'utf8').slice(-3000)
      await stop()
      throw new Error(`${ended?.spawnfile ?? 'the API server'} did not become ready:\n${log}`)
    }
    await pause(100)
  }
  const kubeconfig = join(folder, 'kubeconfig')
  await writeFile(kubeconfig, JSON.stringify(access(port, authority)))
  return { kubeconfig, request, stop }
}

/** A process that dies with this one. */
function run(folder: string, program: string, parameters: readonly string[]): ChildProcess {
  const log = openSync(join(folder, 'log'), 'a')
  const child = spawn('setpriv', ['--pdeathsig', 'KILL', program, ...parameters], {
    stdio: ['ignore', log, log],
  })
  closeSync(log)
  return child
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGKILL')
  await exit
}

const access = (port: number, authority: string) => ({
  apiVersion: 'v1',
  kind: 'Config',
  clusters: [
    { name: 'test', cluster: { server: `https://127.0.0.1:${port}`, 'certificate-authority': authority } },
  ],
  users: [{ name: 'test', user: { token } }],
  contexts: [{ name: 'test', context: { cluster: 'test', user: 'test' } }],
  'current-context': 'test',
})

async function ask(port: number, ca: Buffer, method: string, path: string, body?: object): Promise<Answer> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const request = httpsRequest({ host: '127.0.0.1', port, ca, method, path, headers })
  request.end(body && JSON.stringify(body))
  const [response] = await once(request, 'response')
  const answered = await text(response)
  const warnings = [response.headers.warning ?? []].flat()
  const isJson = response.headers['content-type']?.startsWith('application/json')
  return { status: response.statusCode, warnings, body: isJson ? JSON.parse(answered) : answered }
}
