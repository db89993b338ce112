// Prometheus and promtool: those on the path, or those of Debian's package, unpacked into the user's cache folder.
import { type ChildProcess, execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { freePorts } from './ports.ts'

const run = promisify(execFile)
const cache = process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache')
const folder = join(cache, 'graphmill', 'prometheus')

/** The folder of both programs, with a slash, or undefined after saying so on stderr. */
export async function findPrometheus(what: string): Promise<string | undefined> {
  if (['prometheus', 'promtool'].every((name) => spawnSync(name, ['--version']).status === 0)) return ''
  const bin = join(folder, 'usr/bin/')
  if (existsSync(join(bin, 'promtool'))) return bin
  const made = await unpack().catch((error: Error) => error)
  if (!(made instanceof Error)) return bin
  process.stderr.write(`${what}: skipped, it needs Prometheus or apt-get\n`)
  return undefined
}

async function unpack(): Promise<void> {
  mkdirSync(folder, { recursive: true })
  const downloads = mkdtempSync(join(tmpdir(), 'prometheus-'))
  try {
    const download = () => run('apt-get', ['download', '-qq', 'prometheus'], { cwd: downloads })
    await download().catch(async () => {
      await run('apt-get', ['update', '-qq'])
      await download()
    })
    await run('sh', ['-c', 'dpkg -x prometheus_*.deb "$0"', folder], { cwd: downloads })
  } finally {
    rmSync(downloads, { recursive: true, force: true })
  }
}

export interface ScrapedTarget {
  /** `host:port`. */
  readonly address: string
  readonly labels: Readonly<Record<string, string>>
}

export interface Sample {
  readonly metric: Readonly<Record<string, string>>
  /** The time and the value. */
  readonly value: readonly [number, string]
}

export interface Prometheus {
  /** The samples of an instant query now; throws what Prometheus says of a wrong one. */
  query(expression: string): Promise<readonly Sample[]>
  get(path: string): Promise<unknown>
  stop(): Promise<void>
}

/** A Prometheus that scrapes and evaluates its rules once a second. */
export async function startPrometheus(
  bin: string,
  { targets, rules }: { readonly targets: readonly ScrapedTarget[]; readonly rules: string },
): Promise<Prometheus> {
  const data = mkdtempSync(join(tmpdir(), 'prometheus-'))
  const [port] = await freePorts(1)
  const static_configs = targets.map(({ address, labels }) => ({ targets: [address], labels }))
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [resolve(rules)],
    scrape_configs: [{ job_name: 'graphmill', static_configs }],
  }
  writeFileSync(join(data, 'prometheus.yml'), JSON.stringify(config))
  const flags = [`--config.file=${data}/prometheus.yml`, `--storage.tsdb.path=${data}/data`]
  const child = spawn(`${bin}prometheus`, [...flags, `--web.listen-address=127.0.0.1:${port}`], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const get = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${port}${path}`)
    const { status, data: found, error } = (await response.json()) as Record<string, unknown>
    if (status !== 'success') throw new Error(`${path}: ${error}`)
    return found
  }
  await untilReady(child, `http://127.0.0.1:${port}/-/ready`)
  return {
    get,
    async query(expression) {
      const found = await get(`/api/v1/query?query=${encodeURIComponent(expression)}`)
      return (found as { result: Sample[] }).result
    },
    async stop() {
      const ended = new Promise((done) => child.once('close', done))
      child.kill('SIGTERM')
      await ended
      rmSync(data, { recursive: true, force: true })
    },
  }
}

async function untilReady(child: ChildProcess, url: string): Promise<void> {
  let said = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => (said += text))
  for (;;) {
    if (child.exitCode !== null) throw new Error(`Prometheus ended with ${child.exitCode}:\n${said}`)
    if (
      await fetch(url).then(
        ({ ok }) => ok,
        () => false,
      )
    )
      return
    await new Promise((resume) => setTimeout(resume, 50))
  }
}
