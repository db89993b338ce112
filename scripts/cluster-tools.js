// @ts-check
// Builds Helm, Kubernetes' API server and KEDA's scalers with Go into the user's cache folder, and copies there the custom resources of
// KEDA and of Prometheus' operator: what test/deploy needs of a cluster. What is there stays. The API server takes ten minutes of CPU.
import { execFile } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { promisify } from 'node:util'

const helm = '3.22.0'
const kubernetes = '1.36.3'
const cache = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'graphmill')

/** Where each thing is once it is there. */
export const helmPath = join(cache, `helm-v${helm}`, 'helm')
export const apiServerPath = join(cache, `kubernetes-v${kubernetes}`, 'kube-apiserver')

export const scalerPath = join(cache, 'keda-v2.21.0', 'scaler')

const keda = 'github.com/kedacore/keda/v2@v2.21.0'
const definitions = [
  {
    module: keda,
    files: ['scaledobjects', 'triggerauthentications'].map((name) => `config/crd/bases/keda.sh_${name}.yaml`),
  },
  {
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    files: ['podmonitors', 'prometheusrules'].map(
      (name) => `example/prometheus-operator-crd/monitoring.coreos.com_${name}.yaml`,
    ),
  },
].flatMap(({ module, files }) =>
  files.map((file) => ({
    module,
    file,
    path: join(cache, 'definitions', module.replaceAll('/', '-'), basename(file)),
  })),
)

/** The definitions of custom resources. */
export const definitionPaths = definitions.map(({ path }) => path)

/**
 * @param {string} folder
 * @param {readonly string[]} parameters
 * @param {Readonly<Record<string, string>>} [variables]
 */
async function go(folder, parameters, variables) {
  const env = { ...process.env, CGO_ENABLED: '0', PWD: folder, ...variables }
  const { stdout } = await promisify(execFile)('go', parameters, { cwd: folder, env, maxBuffer: 1 << 28 })
  return stdout
}

/**
 * @param {string} folder
 * @param {string} module with its version
 * @returns {Promise<{ Dir: string, GoMod: string }>} where its files are
 */
const download = async (folder, module) => JSON.parse(await go(folder, ['mod', 'download', '-json', module]))

/**
 * Does the work in a module of its own, which is deleted then.
 * @param {(folder: string) => Promise<void>} work
 */
async function inModule(work) {
  const folder = mkdtempSync(join(tmpdir(), 'cluster-tools-'))
  try {
    writeFileSync(join(folder, 'go.mod'), 'module tools\n')
    await work(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/**
 * Builds a program under another name, and renames it when it is whole.
 * @param {string} folder
 * @param {string} path
 * @param {readonly string[]} parameters
 */
async function build(folder, path, parameters) {
  mkdirSync(dirname(path), { recursive: true })
  const unfinished = `${path}.${process.pid}`
  await go(folder, ['build', '-buildvcs=false', '-p', '2', '-trimpath', '-o', unfinished, ...parameters])
  renameSync(unfinished, path)
}

export async function buildHelm() {
  if (existsSync(helmPath)) return
  const name = `helm.sh/helm/v3/cmd/helm@v${helm}`
  await inModule(async (folder) => {
    await go(folder, ['install', name], { GOBIN: folder })
    mkdirSync(dirname(helmPath), { recursive: true })
    copyFileSync(join(folder, 'helm'), `${helmPath}.${process.pid}`)
    renameSync(`${helmPath}.${process.pid}`, helmPath)
  })
}

export async function buildApiServer() {
  if (existsSync(apiServerPath)) return
  await inModule(async (folder) => {
    const name = 'k8s.io/kubernetes'
    // Its parts are folders of its repository there. Each is also a module, of the version 0.x for Kubernetes' 1.x.
    const published = readFileSync((await download(folder, `${name}@v${kubernetes}`)).GoMod, 'utf8')
    const parts = [...published.matchAll(/^\s*(?:replace )?(\S+) => \.\/staging\/src\//gm)].map(
      ([, part]) => part,
    )
    const replaced = parts.map((part) => `replace ${part} => ${part} v${kubernetes.replace(/^1/, '0')}`)
    const goVersion = published.match(/^go \S+$/m)
    const lines = ['module tools', goVersion, `require ${name} v${kubernetes}`, ...replaced, '']
    writeFileSync(join(folder, 'go.mod'), lines.join('\n'))
    const flags = `-s -w -X k8s.io/component-base/version.gitVersion=v${kubernetes}`
    await build(folder, apiServerPath, ['-mod=mod', '-ldflags', flags, `${name}/cmd/kube-apiserver`])
  })
}

/** KEDA's scalers of Kafka and Pulsar in a program of our own. Its other scalers, with the clients of every cloud, are left out. */
export async function buildScaler() {
  if (existsSync(scalerPath)) return
  await inModule(async (folder) => {
    // Under the name of this link, Go takes files of the module to be left out or added; beneath its own cache it does not.
    const module = join(folder, 'keda')
    symlinkSync((await download(folder, keda)).Dir, module)
    const scalers = join(module, 'pkg/scalers')
    const others = readdirSync(scalers).filter(
      (name) => /\.go$/.test(name) && !/^((kafka|pulsar)_)?scaler\.go$/.test(name),
    )
    const without = Object.fromEntries(others.map((name) => [join(scalers, name), '']))
    const own = {
      [join(module, 'cmd/scaler/main.go')]: join(import.meta.dirname, '../test/support/keda-scaler.go'),
    }
    const overlay = join(folder, 'overlay.json')
    writeFileSync(overlay, JSON.stringify({ Replace: { ...without, ...own } }))
    await build(module, scalerPath, ['-overlay', overlay, '-ldflags', '-s -w', './cmd/scaler'])
  })
}

export async function copyDefinitions() {
  for (const { module, file, path } of definitions) {
    if (existsSync(path)) continue
    await inModule(async (folder) => {
      mkdirSync(dirname(path), { recursive: true })
      copyFileSync(join((await download(folder, module)).Dir, file), path)
    })
  }
}

// `node scripts/cluster-tools.js helm` builds only Helm.
if (import.meta.filename === process.argv[1]) {
  await buildHelm()
  if (process.argv[2] !== 'helm') {
    await copyDefinitions()
    await buildScaler()
    await buildApiServer()
  }
}
