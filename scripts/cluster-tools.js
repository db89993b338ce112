// @ts-check
// Builds Helm and Kubernetes' API server with Go into the user's cache folder, and copies there the custom resources of KEDA and of
// Prometheus' operator: what test/deploy needs of a cluster. What is there already stays. The API server takes ten minutes of CPU.
import { execFile } from 'node:child_process'
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
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

const definitions = [
  {
    module: 'github.com/kedacore/keda/v2@v2.21.0',
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
 */
async function go(folder, ...parameters) {
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '-mod=mod -buildvcs=false' }
  const { stdout } = await promisify(execFile)('go', parameters, { cwd: folder, env, maxBuffer: 1 << 28 })
  return stdout
}

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
 * @param {string} name
 * @param {string} [version] the variable that has its version, and the value
 */
async function build(folder, path, name, version) {
  mkdirSync(dirname(path), { recursive: true })
  const unfinished = `${path}.${process.pid}`
  await go(
    folder,
    'build',
    '-p',
    '2',
    '-trimpath',
    '-ldflags',
    `-s -w${version ? ` -X ${version}` : ''}`,
    '-o',
    unfinished,
    name,
  )
  renameSync(unfinished, path)
}

export async function buildHelm() {
  if (existsSync(helmPath)) return
  await inModule(async (folder) => {
    writeFileSync(join(folder, 'go.mod'), `module tools\nrequire helm.sh/helm/v3 v${helm}\n`)
    await build(folder, helmPath, 'helm.sh/helm/v3/cmd/helm')
  })
}

export async function buildApiServer() {
  if (existsSync(apiServerPath)) return
  await inModule(async (folder) => {
    const name = 'k8s.io/kubernetes'
    const { GoMod } = JSON.parse(await go(folder, 'mod', 'download', '-json', `${name}@v${kubernetes}`))
    // Its parts are folders of its repository there. Each is also a module, of the version 0.x for Kubernetes' 1.x.
    const published = readFileSync(GoMod, 'utf8')
    const parts = [...published.matchAll(/^\s*(?:replace )?(\S+) => \.\/staging\/src\//gm)].map(
      ([, part]) => part,
    )
    const replaced = parts.map((part) => `replace ${part} => ${part} v${kubernetes.replace(/^1/, '0')}`)
    const goVersion = published.match(/^go \S+$/m)
    const lines = ['module tools', goVersion, `require ${name} v${kubernetes}`, ...replaced, '']
    writeFileSync(join(folder, 'go.mod'), lines.join('\n'))
    const version = `k8s.io/component-base/version.gitVersion=v${kubernetes}`
    await build(folder, apiServerPath, `${name}/cmd/kube-apiserver`, version)
  })
}

export async function copyDefinitions() {
  for (const { module, file, path } of definitions) {
    if (existsSync(path)) continue
    await inModule(async (folder) => {
      const { Dir } = JSON.parse(await go(folder, 'mod', 'download', '-json', module))
      mkdirSync(dirname(path), { recursive: true })
      copyFileSync(join(Dir, file), path)
    })
  }
}

// `node scripts/cluster-tools.js helm` builds only Helm.
if (import.meta.filename === process.argv[1]) {
  await buildHelm()
  if (process.argv[2] !== 'helm') {
    await copyDefinitions()
    await buildApiServer()
  }
}
